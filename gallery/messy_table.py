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
# # A messy table, from first look to answers
#
# A dealer's list of used cars: dates, kilometres, prices rounded to 10, fuel as text, repair bills
# that are mostly zero, and gaps everywhere. We look at it, fit it once without cleaning anything,
# and then answer a buyer's questions.
#
# The table is simulated, so at the end every answer can be compared with the truth.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from marginals import MDMA

TODAY = pd.Timestamp("2025-01-01")
FUELS = ["petrol", "diesel", "electric"]


def listings(
    rows: int, seed: int, age: float | None = None, fuel: str | None = None
) -> pd.DataFrame:
    """Return complete rows of the true process, perhaps of one age in years and one fuel."""
    random = np.random.default_rng(seed)
    ages = random.uniform(0, 15, rows) if age is None else np.full(rows, age)
    fuels = random.choice(FUELS, rows, p=[0.5, 0.35, 0.15]) if fuel is None else np.full(rows, fuel)
    yearly = pd.Series({"petrol": 11e3, "diesel": 22e3, "electric": 12e3})[fuels].to_numpy()
    dear = pd.Series({"petrol": 0.0, "diesel": 0.1, "electric": 0.35})[fuels].to_numpy()
    km = yearly * (ages + 0.3) * random.lognormal(0, 0.3, rows)
    price = np.exp(10.1 + dear - 0.07 * ages - 5e-6 * km + random.normal(0, 0.15, rows))
    repaired = random.random(rows) < 0.04 + 0.035 * ages
    bills = np.where(repaired, random.lognormal(6.3, 0.7, rows), 0)
    return pd.DataFrame(
        {
            "registered": TODAY - pd.to_timedelta((365.25 * ages).round(), "D"),
            "fuel": fuels,
            "km": (km / 100).round() * 100,
            "price": (price / 10).round() * 10,
            "repairs": bills.round(),
        }
    )


cars = listings(1500, seed=1)
cars = cars.mask(np.random.default_rng(0).random(cars.shape) < [0.05, 0.05, 0.15, 0.05, 0.10])
cars.head()

# %% [markdown]
# ## First look
#
# Count the gaps and the complete rows. Keeping only complete rows would discard a third of the
# table.

# %%
gaps = cars.isna().mean()
complete = cars.notna().all(axis=1).mean()
print(gaps.round(3).to_string())
print(f"complete rows: {complete:.0%}")

# %% [markdown]
# ## Fit
#
# One call fits the table, with gaps, dates and text unchanged. A single model with few steps keeps
# this page quick; `MDMA()` without settings takes about 15 seconds and chooses the models itself.
#
# Read the schema before any answer. It shows the kind of each column and the reason for it: prices
# in steps of 10, kilometres in steps of 100, and an atom for a repair bill of 0. If something is
# wrong here, correct it with `columns={...}`.

# %%
model = MDMA(tensor="copula", width=12, max_steps=250, random_state=0).fit(cars)
print(model.schema_)

# %% [markdown]
# ## Query
#
# Evidence may be exact, a range or a set, and all other columns are marginalised. A query may also
# be a string.

# %%
known = {"registered": TODAY - pd.Timedelta(4 * 365.25, "D"), "fuel": "diesel"}
low, median, high = model.ppf([0.05, 0.5, 0.95], "price", given=known)
bargain = model.prob({"price": (None, 14_000)}, given=known)
worn = model.prob({"km": (100_000, None)}, given={**known, "price": 14_000})
bill = model.prob(
    {"repairs": (500, None)}, given={"registered": TODAY - pd.Timedelta(10 * 365.25, "D")}
)
fuel = model.probabilities("fuel", given={"registered": known["registered"], "km": 90_000})

print(f"a diesel of 4 years costs {median:,.0f}, and 90 % of them {low:,.0f} to {high:,.0f}")
print(f"it costs at most 14,000 with probability {bargain:.2f}")
print(f"one that costs 14,000 has run more than 100,000 km with probability {worn:.2f}")
print(f"a car of 10 years had a repair bill above 500 with probability {bill:.2f}")
print(fuel.round(2).to_string())
print(model.query("P(repairs = 0 | fuel = petrol, km > 150000)"))

# %% [markdown]
# ## Were the answers right?
#
# Count draws from the true process to answer the same questions.

# %%
same = listings(400_000, seed=2, age=4, fuel="diesel")
at_price = same[same["price"].between(13_900, 14_100)]
ten = listings(400_000, seed=3, age=10)
compared = pd.DataFrame(
    {
        "model": [low, median, high, bargain, worn, bill],
        "truth": [
            *same["price"].quantile([0.05, 0.5, 0.95]),
            (same["price"] <= 14_000).mean(),
            (at_price["km"] > 100_000).mean(),
            (ten["repairs"] > 500).mean(),
        ],
    },
    index=[
        "5 %",
        "median",
        "95 %",
        "P(at most 14,000)",
        "P(> 100,000 km | 14,000)",
        "P(bill > 500)",
    ],
)
print(compared.round(2).to_string())

# %% [markdown]
# ## The picture
#
# Prices by age and fuel: the band that holds 80 % of the cars, the median, and the listed cars
# themselves. The dashed lines are the true medians. Every band comes from the same model as the
# answers above.

# %%
ages = np.arange(0.25, 15, 0.75)
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, kind, colour in zip(axes, FUELS, ["#0072B2", "#D55E00", "#009E73"], strict=True):
    own = cars[cars["fuel"] == kind]
    evidence = pd.DataFrame(
        {"registered": TODAY - pd.to_timedelta(365.25 * ages, "D"), "fuel": kind}
    )
    bottom, middle, top = (model.ppf(q, "price", given=evidence) for q in (0.1, 0.5, 0.9))
    true = [listings(4000, seed=4, age=age, fuel=kind)["price"].median() for age in ages]
    listed = (TODAY - own["registered"]) / pd.Timedelta(365.25, "D")
    ax.scatter(listed, own["price"], s=4, color="0.45", alpha=0.5, lw=0)
    ax.fill_between(ages, bottom, top, color=colour, alpha=0.25, lw=0)
    ax.plot(ages, middle, color=colour, lw=1.8, label="model: median and 80 %")
    ax.plot(ages, true, color="k", lw=0.9, ls="--", label="true median")
    ax.set(title=kind, xlabel="age in years", yscale="log", ylim=(1_500, 50_000))
    ax.legend(frameon=False, fontsize=7)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("price")
figure
