"""What is known of a graph before it is searched for."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from marginals.causal.adapters import required
from marginals.causal.pc_search import Pair

_KEYS = ("required", "forbidden", "tiers")


def knowledge_of(known: Any, names: Sequence[Any]) -> Any:
    """Return causal-learn's `BackgroundKnowledge`, from itself or from a dict.

    Args:
        known: a `BackgroundKnowledge`, whose nodes have the columns' names; a dict with lists of
            edges (from, to) under "required" and "forbidden", and under "tiers" lists of columns
            from the earliest to the latest, of which none causes an earlier one; or None.
        names: of the columns.
    """
    module = required(
        "causallearn.utils.PCUtils.BackgroundKnowledge", "causal-learn", '"marginals[causal]"'
    )
    if known is None:
        return None
    if isinstance(known, module.BackgroundKnowledge):
        if node_names(names) != [str(name) for name in names]:
            raise ValueError(
                "Expected names of columns that differ as text beside causal-learn's "
                f"BackgroundKnowledge; got {list(names)[:20]}. Give a dict, or rename columns."
            )
        _check_consistent(known, names)
        return known
    if not isinstance(known, Mapping) or set(known) - set(_KEYS):
        got = sorted(known) if isinstance(known, Mapping) else type(known).__name__
        raise ValueError(
            f"Expected `background_knowledge` to be a dict with keys among {list(_KEYS)}, or "
            f"causal-learn's BackgroundKnowledge; got {got}."
        )
    nodes = dict(zip(names, nodes_of(names), strict=True))
    found = module.BackgroundKnowledge()
    for kind, add in (
        ("required", found.add_required_by_node),
        ("forbidden", found.add_forbidden_by_node),
    ):
        for edge in known.get(kind, ()):
            a, b = _edge(edge, nodes, kind)
            add(nodes[a], nodes[b])
    for tier, columns in enumerate(known.get("tiers", ())):
        for column in columns:
            found.add_node_to_tier(nodes[_known(column, nodes, "tiers")], tier)
    _check_consistent(found, names)
    return found


def node_names(names: Sequence[Any]) -> list[str]:
    """Return what causal-learn calls columns: their names, or X1, X2, ... if some read the same.

    >>> node_names(["a", 1]), node_names(["1", 1])
    (['a', '1'], ['X1', 'X2'])
    """
    told = [str(name) for name in names]
    return told if len(set(told)) == len(told) else [f"X{i}" for i in range(1, len(told) + 1)]


def nodes_of(names: Sequence[Any]) -> list[Any]:
    """Return causal-learn's nodes of columns with these names."""
    module = required("causallearn.graph.GraphNode", "causal-learn", '"marginals[causal]"')
    return [module.GraphNode(name) for name in node_names(names)]


def _check_consistent(knowledge: Any, names: Sequence[Any]) -> None:
    """Refuse edges that are both required and forbidden, by themselves or by their tiers."""
    nodes = nodes_of(names)
    for i, j in permutations(range(len(nodes)), 2):
        if knowledge.is_required(nodes[i], nodes[j]) and knowledge.is_forbidden(nodes[i], nodes[j]):
            raise ValueError(
                "Expected no edge of `background_knowledge` to be both required and forbidden, as "
                f"such or by tiers; got {(names[i], names[j])}. Leave one of them out."
            )


def settled(knowledge: Any, names: Sequence[Any]) -> dict[Pair, float]:
    """Return the p-values of pairs that need no test: 0 where an edge is required, 1 where none is.

    causal-learn itself gives a required edge its direction only if the tests have left it there,
    and tests pairs that may not be joined either way.

    Args:
        knowledge: causal-learn's `BackgroundKnowledge` or None.
        names: of the columns.
    """
    found: dict[Pair, float] = {}
    if knowledge is None:
        return found
    nodes = nodes_of(names)
    for i, j in permutations(range(len(nodes)), 2):
        if knowledge.is_required(nodes[i], nodes[j]):
            found[frozenset((i, j))] = 0.0
        elif knowledge.is_forbidden(nodes[i], nodes[j]) and knowledge.is_forbidden(
            nodes[j], nodes[i]
        ):
            found.setdefault(frozenset((i, j)), 1.0)
    return found


def _edge(edge: Any, nodes: Mapping[Any, Any], kind: str) -> tuple[Any, Any]:
    if not isinstance(edge, tuple | list) or len(edge) != 2:
        raise ValueError(
            f"Expected `background_knowledge[{kind!r}]` to hold pairs (from, to); got {edge!r}."
        )
    a, b = (_known(name, nodes, kind) for name in edge)
    return a, b


def _known(name: Any, nodes: Mapping[Any, Any], kind: str) -> Any:
    if name not in nodes:
        raise ValueError(
            f"Expected columns in `background_knowledge[{kind!r}]` to be among "
            f"{list(nodes)[:20]}; got {name!r}."
        )
    return name
