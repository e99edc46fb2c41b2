"""Graphs of columns: arrows for directed edges, plain lines for undirected ones."""

from typing import Any

from marginals.plotting.canvas import BLUE, GREY, LIGHT, SIZE, WIDTH, Axes, axes_or_new, wrapped

__all__ = ["graph"]

_LETTERS = 10  # of a name in a line; longer ones are broken in two or shortened


def graph(network: Any, *, ax: Axes = None) -> Axes:
    """Draw a mixed graph: arrows for directed edges, plain lines where the direction is open.

    Needs networkx, which comes with `pip install "marginals[causal]"`.

    Args:
        network: a `networkx.DiGraph`, in which an undirected edge is there both ways.
        ax: matplotlib axes, by default new ones.
    """
    import networkx as nx

    count = len(network)
    side = min(WIDTH, 2.2 + 0.3 * count)
    ax = axes_or_new(ax, (side, side))
    places = _places(network)
    arrows = [(a, b) for a, b in network.edges if not network.has_edge(b, a)]
    order = {node: i for i, node in enumerate(network.nodes)}
    lines = [(a, b) for a, b in network.edges if order[a] < order[b] and network.has_edge(b, a)]
    names = {node: wrapped(node, _LETTERS) for node in network.nodes}
    # Edges end at a circle around each name, in points squared.
    sizes = [(0.58 * SIZE * max(map(len, names[node].split("\n"))) + 10) ** 2 for node in network]
    box = {"boxstyle": "round,pad=0.35", "facecolor": "#EAF3F9", "edgecolor": LIGHT}
    shared = {"ax": ax, "node_size": sizes, "nodelist": list(network), "width": 1.1}
    nx.draw_networkx_labels(network, places, names, ax=ax, font_size=SIZE, bbox=box)
    if arrows:
        nx.draw_networkx_edges(
            network, places, edgelist=arrows, edge_color=BLUE, arrowsize=10, **shared
        )
    if lines:
        nx.draw_networkx_edges(
            network, places, edgelist=lines, edge_color=GREY, arrowstyle="-", **shared
        )
    ax.margins(0.15)
    ax.set_axis_off()
    return ax


def _places(network: Any) -> Any:
    """Return where columns go: as far apart as their paths are long, the same in every run."""
    import networkx as nx

    plain = network.to_undirected()
    ring = nx.circular_layout(plain)
    if len(plain) < 3 or plain.number_of_edges() == 0:
        return ring
    steps = dict(nx.all_pairs_shortest_path_length(plain))
    # Columns without a path between them stand as far apart as long paths are.
    far = 1.5 + max(max(row.values()) for row in steps.values()) / 2
    apart = {a: {b: steps[a].get(b, far) for b in plain} for a in plain}
    return nx.kamada_kawai_layout(plain, dist=apart, pos=ring)
