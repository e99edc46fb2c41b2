# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Finding causes
#
# Deliveries come late on rainy days and over long distances, and late ones earn small tips. Does
# rain delay them, or is it the traffic that rain brings? And how much would less traffic help?
#
# Correlation cannot tell. Conditional independence can, in part: the PC algorithm removes an edge
# when two columns are independent given others, and directs an edge when the pattern of
# independences allows only one direction.

# %%
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd

from marginals import MDMA, causal_graph
from marginals.causal import shd

random = np.random.default_rng(0)
n = 1200
rain = random.gamma(1.5, 1.0, n)
distance = random.lognormal(1.0, 0.4, n)
traffic = 1.2 * rain + random.normal(0, 1.0, n)
delay = 2.0 * traffic + 3.0 * distance + random.normal(0, 2.5, n)
tip = np.exp(0.5 - 0.06 * delay + random.normal(0, 0.3, n))
trips = pd.DataFrame(
    {"rain": rain, "distance": distance, "traffic": traffic, "delay": delay, "tip": tip}
)
truth = nx.DiGraph(
    [("rain", "traffic"), ("traffic", "delay"), ("distance", "delay"), ("delay", "tip")]
)

# %% [markdown]
# ## What correlation shows
#
# Rain, traffic, delay and tip all correlate with each other. That says nothing about cause and
# effect.

# %%
print(trips.corr("spearman").round(2).to_string())

# %% [markdown]
# ## What conditioning shows
#
# One fitted model runs every test. If rain acts only through traffic, rain and delay are
# independent *given* traffic.

# %%
model = MDMA(effort="quick", random_state=0).fit(trips)
alone = model.independence_test("rain", "delay")
through = model.independence_test("rain", "delay", given=["traffic"])
print(f"rain and delay:               p = {alone.pvalue:.1g}")
print(f"rain and delay given traffic: p = {through.pvalue:.2f}")

# %% [markdown]
# ## The graph
#
# PC repeats such tests for all pairs. Some directions follow from independences alone: traffic and
# distance are independent, but dependent given the delay, so both must point *at* it. The direction
# between rain and traffic does not follow, so the result leaves it open. We know that weather comes
# before traffic, and add this background knowledge as tiers.

# %%
blind = causal_graph(model, alpha=0.01)
informed = causal_graph(
    model,
    alpha=0.01,
    background_knowledge={"tiers": [["rain", "distance"], ["traffic"], ["delay"], ["tip"]]},
)
print(f"without knowledge: {blind.directed}, open: {blind.undirected}")
print(f"with tiers: {informed.directed}")
print(f"edges that differ from the truth: {shd(informed, truth)}")

# %% [markdown]
# ## From a graph to an effect
#
# How much later is a delivery if traffic rises by one unit *by itself*? The graph shows what to
# hold fixed: rain causes traffic, so compare deliveries with the same rain and distance (the
# back-door adjustment). The joint model does the averaging: the mean delay at each row's own rain
# and distance, with the traffic that we set.
#
# Tips, by contrast, must *not* be held fixed. They are an effect of the delay, and conditioning on
# an effect hides the cause.

# %%
rows = trips.sample(300, random_state=0)


def delay_at(traffic: float, fixed: list[str]) -> float:
    return float(model.mean("delay", given=rows[fixed].assign(traffic=traffic)).mean())


adjusted = delay_at(2.5, ["rain", "distance"]) - delay_at(1.5, ["rain", "distance"])
spoiled = delay_at(2.5, ["distance", "tip"]) - delay_at(1.5, ["distance", "tip"])
print(
    f"effect of one unit of traffic: adjusted {adjusted:.2f}, "
    f"with tips held fixed {spoiled:.2f}, truth 2.00"
)

# %% [markdown]
# ## The picture
#
# Left: what correlates. Right: what causes what, found from the same table with the tiers above.

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
table = trips.corr("spearman")
shown = axes[0].imshow(table, cmap="RdBu_r", vmin=-1, vmax=1)
axes[0].set_xticks(range(5), table.columns, rotation=45, ha="right")
axes[0].set_yticks(range(5), table.columns)
for (i, j), value in np.ndenumerate(table.to_numpy()):
    axes[0].text(
        j,
        i,
        f"{value:.1f}",
        ha="center",
        va="center",
        fontsize=8,
        color="w" if abs(value) > 0.6 else "k",
    )
axes[0].set_title("what correlates")
figure.colorbar(shown, ax=axes[0], label="rank correlation", shrink=0.85)
informed.plot(axes[1])
axes[1].set_title("what causes what")
figure
