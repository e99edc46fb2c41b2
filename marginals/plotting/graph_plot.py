"""Graphs of columns: arrows for directed edges, plain lines for undirected ones."""

from typing import Any

from marginals.plotting.canvas import BLUE, GREY, LIGHT, SIZE, WIDTH, Axes, axes_or_new, wrapped
from marginals.runtime.extras import optional
from marginals.structure.mixed_graph import directed_edges, undirected_edges

_LETTERS = 10  # per line of a name; longer names are broken in two or shortened


def graph(network: Any, *, ax: Axes = None) -> Axes:
    """Draw a mixed graph: arrows for directed edges, plain lines for undirected ones.

    Needs networkx, which comes with `pip install "marginals[causal]"`.

    Args:
        network: a `networkx.DiGraph`, in which an undirected edge appears both ways.
        ax: axes to draw on; by default a new figure.
    """
    nx = optional("networkx", "marginals[causal]")
    side = min(WIDTH, 2.2 + 0.3 * len(network))
    ax = axes_or_new(ax, (side, side))
    places = _places(network)
    names = {node: wrapped(node, _LETTERS) for node in network.nodes}
    box = {"boxstyle": "round,pad=0.35", "facecolor": "#EAF3F9", "edgecolor": LIGHT}
    nx.draw_networkx_labels(network, places, names, ax=ax, font_size=SIZE, bbox=box)
    # Edges end at a circle around each name, in points squared.
    sizes = [(0.58 * SIZE * max(map(len, names[node].split("\n"))) + 10) ** 2 for node in network]
    for edges, style in (
        (directed_edges(network), {"edge_color": BLUE, "arrowsize": 10}),
        (undirected_edges(network), {"edge_color": GREY, "arrowstyle": "-"}),
    ):
        if edges:
            ends = {"nodelist": list(network), "node_size": sizes}
            nx.draw_networkx_edges(network, places, edges, width=1.1, ax=ax, **ends, **style)
    ax.margins(0.15)
    ax.set_axis_off()
    return ax


def _places(network: Any) -> Any:
    """Return a layout, the same in every run, with columns as far apart as their paths are long."""
    nx = optional("networkx", "marginals[causal]")
    plain = network.to_undirected()
    ring = nx.circular_layout(plain)
    if len(plain) < 3 or plain.number_of_edges() == 0:
        return ring
    steps = dict(nx.all_pairs_shortest_path_length(plain))
    # Columns without a path between them stand as far apart as long paths are.
    far = 1.5 + max(max(row.values()) for row in steps.values()) / 2
    apart = {a: {b: steps[a].get(b, far) for b in plain} for a in plain}
    return nx.kamada_kawai_layout(plain, dist=apart, pos=ring)
