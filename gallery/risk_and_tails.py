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
# # A risk question: tails and copulas
#
# An insurer covers storm damage in two counties. Each has its own large losses, and a big storm
# hits both. Reinsurance pays the part of their joint daily loss above a limit. What is a fair
# price?
#
# The margins alone cannot answer that. What matters is how often the counties are hit *together*,
# which the copula describes. We learn the copula from ten years of stormy days and choose the
# margins separately: here a family whose tail reaches beyond the largest loss on record.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

from marginals import MDMA

MARGINS = {
    "coast": stats.lognorm(s=1.0, scale=2.0),
    "inland": stats.lognorm(s=1.3, scale=0.8),
}  # millions


def storms(days: int, seed: int) -> pd.DataFrame:
    """Return losses with a Student t copula: one shock per day makes large losses coincide."""
    random = np.random.default_rng(seed)
    scores = random.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], days)
    scores /= np.sqrt(random.chisquare(4, days) / 4)[:, None]
    levels = stats.t(4).cdf(scores)
    return pd.DataFrame({name: m.ppf(levels[:, i]) for i, (name, m) in enumerate(MARGINS.items())})


losses = storms(2500, seed=0)
losses = losses.mask(np.random.default_rng(1).random(losses.shape) < 0.08)  # days without a report
losses.describe().round(2)

# %% [markdown]
# ## The copula
#
# Fit the table, then look at dependence on the scale of levels, where each column is uniform. Rank
# correlations have exact values for this copula to compare with: Kendall's tau is (2/π) arcsin ρ.

# %%
model = MDMA(effort="quick", random_state=0).fit(losses)
copula = model.copula()
tau = copula.kendall_tau("coast", "inland").value
true_tau = 2 / np.pi * np.arcsin(0.6)
print(f"Kendall's tau: model {tau:.3f}, truth {true_tau:.3f}")

# %% [markdown]
# ## Tails, at a threshold
#
# Given that the coast has one of its worst days in twenty, how likely is the same inland? Under
# independence, 5 %. A tail coefficient always belongs to a threshold: report both, and do not
# extrapolate beyond the data. The limit for ever rarer days is 0 in every model of this library,
# but not for a t copula. At one day in a thousand, with two or three such days on record, neither
# the model nor the data can say.

# %%
truth = storms(2_000_000, seed=2)
levels = np.array([0.2, 0.1, 0.05, 0.02, 0.01])
joint = np.asarray(copula.upper_tail("coast", "inland", levels.tolist()))
uniform = np.column_stack([m.cdf(truth[name]) for name, m in MARGINS.items()])
true_joint = np.array([(uniform > 1 - q).all(axis=1).mean() / q for q in levels])
print(
    pd.DataFrame({"model": joint, "truth": true_joint, "independent": levels}, index=levels)
    .round(3)
    .to_string()
)

# %% [markdown]
# ## Margins with a tail, and the price
#
# `with_margins` keeps the copula and replaces the margins. Here they are lognormals fitted to each
# column. The result is a model like any other: it has probabilities, conditionals and draws.

# %%
fitted = {name: stats.lognorm(*stats.lognorm.fit(losses[name].dropna(), floc=0)) for name in losses}
book = model.with_margins(fitted)
LIMIT = 30.0


def payout(days: pd.DataFrame) -> pd.Series:
    """Return what reinsurance pays on each day, in millions."""
    return (days.sum(axis=1) - LIMIT).clip(lower=0)


draws = book.sample(100_000, random_state=0)
apart = pd.DataFrame(
    {name: m.rvs(100_000, random_state=i) for i, (name, m) in enumerate(fitted.items())}
)
price, naive, fair = (payout(days).mean() for days in (draws, apart, truth))
error = payout(draws).std() / len(draws) ** 0.5
print(
    f"millions per stormy day: model {price:.3f} ± {error:.3f}, "
    f"independent counties {naive:.3f}, truth {fair:.3f}"
)

# %% [markdown]
# Conditional queries need no extra work: the coast reports 15 million before noon, so what should
# the inland office expect?

# %%
quiet = book.ppf([0.5, 0.9], "inland")
alarm = book.ppf([0.5, 0.9], "inland", given={"coast": 15.0})
print(
    f"inland, median and 90 %: on any day {quiet.round(1)}, "
    f"after the coast's report {alarm.round(1)}"
)

# %% [markdown]
# ## The picture
#
# Left: the days on the scale of levels, with the copula's density; both corners are crowded, the
# upper right one by storms. Right: how often reinsurance pays more than a given amount.
# Independence would miss half of it.

# %%
grid = (np.arange(60) + 0.5) / 60
mesh = pd.DataFrame({"coast": np.tile(grid, 60), "inland": np.repeat(grid, 60)})
density = np.asarray(copula.pdf(mesh)).reshape(60, 60)
seen = copula.levels(losses).dropna()

figure, axes = plt.subplots(1, 2, figsize=(8, 3.5), layout="constrained", width_ratios=[1, 1.15])
shown = axes[0].pcolormesh(
    grid, grid, np.minimum(density, 4), cmap="Blues", shading="nearest", rasterized=True
)
axes[0].scatter(seen["coast"], seen["inland"], s=2, color="#D55E00", alpha=0.35, lw=0)
figure.colorbar(shown, ax=axes[0], label="copula density (4 and more in dark)", shrink=0.9)
axes[0].set(xlabel="level of the coast's loss", ylabel="level of the inland loss", aspect="equal")
amounts = np.geomspace(0.5, 150, 60)
for days, label, style in (
    (truth, "truth", {"color": "k", "lw": 1, "ls": "--"}),
    (draws, "model", {"color": "#0072B2", "lw": 2}),
    (apart, "same margins, independent", {"color": "#D55E00", "lw": 1.3}),
):
    paid = np.sort(payout(days))
    axes[1].plot(amounts, 1 - np.searchsorted(paid, amounts) / len(paid), label=label, **style)
axes[1].set(
    xscale="log",
    yscale="log",
    ylim=(5e-5, 3e-2),
    xlabel="payout of a day, millions",
    ylabel="share of days beyond",
)
axes[1].legend(frameon=False, fontsize=8)
axes[1].spines[["top", "right"]].set_visible(False)
figure
