"""Background knowledge about a graph, given before the search."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

from marginals.causal.adapters import EXTRA
from marginals.causal.pc_search import Pair
from marginals.runtime.extras import optional

_KEYS = ("required", "forbidden", "tiers")


def knowledge_of(known: Any, names: Sequence[Any]) -> Any:
    """Return causal-learn's `BackgroundKnowledge`, checked.

    Args:
        known: a `BackgroundKnowledge` whose nodes have the columns' names; a dict with lists of
            edges (from, to) under "required" and "forbidden", and lists of columns from the
            earliest to the latest under "tiers", where none causes an earlier one; or None.
        names: names of the columns.
    """
    module = optional("causallearn.utils.PCUtils.BackgroundKnowledge", EXTRA)
    if known is None:
        return None
    if isinstance(known, module.BackgroundKnowledge):
        if node_names(names) != [str(name) for name in names]:
            raise ValueError(
                "Expected column names that differ as text for causal-learn's "
                f"BackgroundKnowledge; got {list(names)[:20]}. Give a dict, or rename columns."
            )
    elif isinstance(known, Mapping) and set(known) <= set(_KEYS):
        known = _from_dict(known, names, module.BackgroundKnowledge())
    else:
        got = sorted(known) if isinstance(known, Mapping) else type(known).__name__
        raise ValueError(
            f"Expected `background_knowledge` to be a dict with keys among {list(_KEYS)}, or "
            f"causal-learn's BackgroundKnowledge; got {got}."
        )
    nodes = nodes_of(names)
    for i, j in permutations(range(len(nodes)), 2):
        if known.is_required(nodes[i], nodes[j]) and known.is_forbidden(nodes[i], nodes[j]):
            raise ValueError(
                "Expected no edge of `background_knowledge` to be both required and forbidden, "
                f"directly or by tiers; got {(names[i], names[j])}. Leave one of them out."
            )
    return known


def node_names(names: Sequence[Any]) -> list[str]:
    """Return causal-learn's node names: the columns' names, or X1, X2, ... if some read the same.

    >>> node_names(["a", 1]), node_names(["1", 1])
    (['a', '1'], ['X1', 'X2'])
    """
    texts = [str(name) for name in names]
    return texts if len(set(texts)) == len(texts) else [f"X{i + 1}" for i in range(len(texts))]


def nodes_of(names: Sequence[Any]) -> list[Any]:
    """Return causal-learn's nodes for columns with these names."""
    module = optional("causallearn.graph.GraphNode", EXTRA)
    return [module.GraphNode(name) for name in node_names(names)]


def settled(knowledge: Any, names: Sequence[Any]) -> dict[Pair, float]:
    """Return p-values of pairs that need no test: 0 for a required edge, 1 for a forbidden pair.

    By itself, causal-learn directs a required edge only if the tests kept it, and tests pairs whose
    edge is forbidden both ways.

    Args:
        knowledge: causal-learn's `BackgroundKnowledge`, or None.
        names: names of the columns.
    """
    found: dict[Pair, float] = {}
    if knowledge is None:
        return found
    for (i, a), (j, b) in permutations(enumerate(nodes_of(names)), 2):
        if knowledge.is_required(a, b):
            found[frozenset((i, j))] = 0.0
        elif knowledge.is_forbidden(a, b) and knowledge.is_forbidden(b, a):
            found.setdefault(frozenset((i, j)), 1.0)
    return found


def _from_dict(known: Mapping[str, Any], names: Sequence[Any], found: Any) -> Any:
    """Add the edges and tiers of a dict to an empty `BackgroundKnowledge`."""
    nodes = dict(zip(names, nodes_of(names), strict=True))

    def chosen(columns: Iterable[Any], kind: str) -> list[Any]:
        columns = list(columns)
        for name in columns:
            if name not in nodes:
                raise ValueError(
                    f"Expected columns in `background_knowledge[{kind!r}]` to be among "
                    f"{list(nodes)[:20]}; got {name!r}."
                )
        return [nodes[name] for name in columns]

    for kind in ("required", "forbidden"):
        for edge in known.get(kind, ()):
            if not isinstance(edge, tuple | list) or len(edge) != 2:
                raise ValueError(
                    f"Expected `background_knowledge[{kind!r}]` to hold pairs (from, to); got "
                    f"{edge!r}."
                )
            getattr(found, f"add_{kind}_by_node")(*chosen(edge, kind))
    for tier, columns in enumerate(known.get("tiers", ())):
        for node in chosen(columns, "tiers"):
            found.add_node_to_tier(node, tier)
    return found
