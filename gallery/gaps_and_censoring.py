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
# # Gaps and censoring
#
# How long does a pump last? A plant has 1,500 of them, installed over five years. Most still run
# today: all we know is that they have lasted *at least* until now. Temperatures come from sensors
# that fail, most often on the older design.
#
# Two shortcuts are common, and both are wrong. Dropping pumps that still run keeps the ones that
# broke early. Dropping rows without a temperature keeps mostly the newer design. Here we do
# neither: the lifetime of a running pump enters the likelihood as the interval from its age to
# infinity, and a missing temperature is integrated out.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from marginals import MDMA, Continuous

random = np.random.default_rng(0)
pumps = 1500
design = random.choice(["old", "new"], pumps)
temperature = random.normal(60, 9, pumps)


def scale(design: object, temperature: object) -> np.ndarray:
    """Return the scale of Weibull lifetimes in months, which heat and the old design shorten."""
    factor = np.where(np.asarray(design) == "old", 0.6, 1.0)
    return 75 * factor * np.exp(-0.04 * (np.asarray(temperature, dtype=float) - 60))


SHAPE = 2.0
lifetime = scale(design, temperature) * random.weibull(SHAPE, pumps)
today = random.uniform(0, 60, pumps)  # months since each pump was installed
runs = lifetime > today
silent = random.random(pumps) < np.where(design == "old", 0.45, 0.10)
recorded = np.where(silent, np.nan, temperature)
print(f"still running: {runs.mean():.0%}; without a temperature: {silent.mean():.0%}")

# %% [markdown]
# ## Fit
#
# Two frames hold the lower and upper ends of each cell. They differ only where a pump still runs:
# at least `today`, at most infinity. Missing temperatures stay NaN. We declare that lifetimes are
# positive.

# %%
lower = pd.DataFrame(
    {
        "design": design,
        "temperature": recorded,
        "lifetime": np.where(runs, today, lifetime),
    }
)
upper = lower.assign(lifetime=np.where(runs, np.inf, lifetime))
columns = {"temperature": Continuous(), "lifetime": Continuous(lower=0)}
settings = {"tensor": "ht", "width": 8, "max_steps": 250, "random_state": 0, "columns": columns}
model = MDMA(**settings).fit(lower, upper=upper)

# %% [markdown]
# The shortcut, for comparison: only pumps that broke, only rows without gaps.

# %%
shortcut = MDMA(**settings).fit(lower[~runs & ~silent])

# %% [markdown]
# ## Answers
#
# Survival is one query, `P(lifetime > t | evidence)`. The evidence may omit the temperature, or
# state it exactly or as a range.

# %%
months = np.arange(6, 61, 6)
cases = {
    "old design at 60 °C": {"design": "old", "temperature": 60.0},
    "new design at 60 °C": {"design": "new", "temperature": 60.0},
    "new design at 67 °C": {"design": "new", "temperature": 67.0},
}


def survival(fitted: MDMA, given: dict[str, object]) -> np.ndarray:
    return np.array([fitted.prob({"lifetime": (t, None)}, given=given) for t in months.tolist()])


ours = {name: survival(model, given) for name, given in cases.items()}
short = {name: survival(shortcut, given) for name, given in cases.items()}
true = {
    name: np.exp(-((months / scale(given["design"], given["temperature"])) ** SHAPE))
    for name, given in cases.items()
}
table = pd.DataFrame(
    {
        "largest error, model": {name: np.abs(ours[name] - true[name]).max() for name in cases},
        "largest error, shortcut": {name: np.abs(short[name] - true[name]).max() for name in cases},
    }
)
print(table.round(2).to_string())

# %% [markdown]
# A pump of the new design has run for 24 months at an unknown temperature. Will it last another
# two years? Its age is evidence about its own lifetime.

# %%
another = model.prob({"lifetime": (48, None)}, given={"design": "new", "lifetime": (24, None)})
heat = scale("new", temperature)
exact = np.exp(-((48 / heat) ** SHAPE)).mean() / np.exp(-((24 / heat) ** SHAPE)).mean()
print(f"model {another:.2f}, truth {exact:.2f}")

# %% [markdown]
# A pump with a dead sensor broke after ten months. How hot did it run? The model answers in either
# direction, and an early failure points to heat.

# %%
usual = model.mean("temperature", given={"design": "new"})
early = model.mean("temperature", given={"design": "new", "lifetime": 10.0})
print(f"usually {usual:.0f} °C, after an early death {early:.0f} °C")

# %% [markdown]
# ## The picture
#
# Survival by design and temperature: solid lines for the model, dashed lines for the truth, and
# dotted lines for what the shortcut would have told the maintenance department.

# %%
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for name, colour in zip(cases, ["#D55E00", "#0072B2", "#CC79A7"], strict=True):
    at = np.r_[0, months]
    ax.plot(at, np.r_[1, ours[name]], color=colour, lw=2, label=name)
    ax.plot(at, np.r_[1, true[name]], color=colour, lw=1.2, ls="--")
    ax.plot(at, np.r_[1, short[name]], color=colour, lw=1.2, ls=":")
ax.plot([], [], color="k", lw=0.9, ls="--", label="truth")
ax.plot([], [], color="0.4", lw=1.2, ls=":", label="gaps and running pumps dropped")
ax.set(xlabel="months in service", ylabel="share still running", xlim=(0, 60), ylim=(0, 1))
ax.legend(frameon=False, fontsize=8)
ax.spines[["top", "right"]].set_visible(False)
figure
