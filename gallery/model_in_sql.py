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
# # A model in SQL
#
# Analysts work in databases, and a fitted model can work there too: `register` adds it to a DuckDB
# connection as functions of rows. Probabilities, quantiles, filled gaps and draws then become part
# of ordinary statements. The table is scikit-learn's wine data with one measurement in eight
# missing.

# %%
import duckdb
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import marginals.sql
from marginals import MDMA

wine = load_wine(as_frame=True).frame
wine["cultivar"] = wine.pop("target").map({0: "Barolo", 1: "Grignolino", 2: "Barbera"})
wine = wine[["cultivar", "alcohol", "color_intensity", "hue", "flavanoids", "proline"]]
full = wine.copy()
hidden = np.random.default_rng(0).random(wine.shape) < 1 / 8
wine = wine.mask(hidden)

model = MDMA(tensor="ht", width=10, max_steps=200, random_state=0).fit(wine)

# %% [markdown]
# ## Register
#
# NULL means missing. A row is a struct: the alias `w` stands for a whole row, `{'alcohol': a}` for
# some of its columns.

# %%
database = duckdb.connect()
database.register("wine_rows", wine.reset_index(names="bottle"))
database.sql("CREATE TABLE wines AS SELECT * FROM wine_rows")
marginals.sql.register(database, model, "wine", ignore=["bottle"])

# %% [markdown]
# ## Which bottles are odd?
#
# `wine_tail` is the share of the model's own draws that are at least as extreme as the row. Rows
# with and without gaps are comparable.

# %%
odd = database.sql("""
    SELECT bottle, cultivar, alcohol, hue, proline, wine_tail(w) AS tail
    FROM wines w ORDER BY tail, bottle LIMIT 5
""").df()
print(odd.round(3).to_string(index=False))

# %% [markdown]
# ## Whose labels fell off?
#
# For bottles without a cultivar, compute the probability of each one from the measurements that
# exist. One statement handles any pattern of gaps.

# %%
labels = (
    database.sql("""
    WITH lost AS (SELECT * EXCLUDE (cultivar) FROM wines WHERE cultivar IS NULL)
    SELECT bottle,
        wine_prob('cultivar = Barolo', l) AS Barolo,
        wine_prob('cultivar = Grignolino', l) AS Grignolino,
        wine_prob('cultivar = Barbera', l) AS Barbera
    FROM lost l ORDER BY bottle
""")
    .df()
    .set_index("bottle")
)
guessed = labels.idxmax(axis=1)
right = (guessed == full.loc[labels.index, "cultivar"]).mean()
print(labels.round(2).head().to_string())
print(f"{right:.0%} of {len(labels)} lost labels are guessed right")

# %% [markdown]
# ## Aggregates over filled gaps
#
# Averages of the observed cells alone ignore what the rest of the row reveals about a gap.
# `wine_filled` is the table without gaps, ready for any `GROUP BY`.

# %%
filled = database.sql("""
    SELECT cultivar, count(*) AS bottles, round(avg(proline)) AS proline
    FROM wine_filled('wines') GROUP BY cultivar ORDER BY cultivar
""").df()
print(filled.to_string(index=False))

# %% [markdown]
# ## A fan chart from one statement
#
# Quantiles of proline along the range of alcohol, for each cultivar: cross two lists and call
# `wine_ppf` on the pairs.

# %%
fan = database.sql("""
    SELECT cultivar, alcohol,
        wine_ppf(0.1, 'proline', {'alcohol': alcohol, 'cultivar': cultivar}) AS low,
        wine_ppf(0.5, 'proline', {'alcohol': alcohol, 'cultivar': cultivar}) AS middle,
        wine_ppf(0.9, 'proline', {'alcohol': alcohol, 'cultivar': cultivar}) AS high
    FROM (SELECT unnest(['Barolo', 'Grignolino', 'Barbera']) AS cultivar),
        (SELECT 11.5 + 0.15 * i AS alcohol FROM range(21) t(i))
    ORDER BY cultivar, alcohol
""").df()
inside = full.assign(
    low=model.ppf(0.1, "proline", given=full[["alcohol", "cultivar"]]),
    high=model.ppf(0.9, "proline", given=full[["alcohol", "cultivar"]]),
)
coverage = ((inside["proline"] >= inside["low"]) & (inside["proline"] <= inside["high"])).mean()
print(f"the bands hold {coverage:.0%} of all bottles, measured or lost")

# %% [markdown]
# ## The picture
#
# The bands hold 80 % of the wines of each cultivar. Filled dots were in the table; rings are
# bottles whose proline was missing, drawn at the true value, which the model never saw.

# %%
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
lost = wine["proline"].isna()
for (name, band), colour in zip(
    fan.groupby("cultivar"), ["#CC79A7", "#0072B2", "#E69F00"], strict=True
):
    own = full["cultivar"] == name
    low, high = full.loc[own, "alcohol"].quantile([0.01, 0.99])
    band = band[band["alcohol"].between(low - 0.15, high + 0.15)]
    ax.fill_between(band["alcohol"], band["low"], band["high"], color=colour, alpha=0.2, lw=0)
    ax.plot(band["alcohol"], band["middle"], color=colour, lw=2, label=name)
    ax.scatter(full["alcohol"][own & ~lost], full["proline"][own & ~lost], s=12, color=colour, lw=0)
    ax.scatter(
        full["alcohol"][own & lost],
        full["proline"][own & lost],
        s=22,
        ec=colour,
        fc="w",
        lw=1.1,
        zorder=3,
    )
ax.set(xlabel="alcohol, %", ylabel="proline, mg/l", ylim=(200, 1750))
ax.legend(frameon=False, fontsize=8, loc="upper left")
ax.spines[["top", "right"]].set_visible(False)
figure
