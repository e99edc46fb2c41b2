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
# # Synthetic data, with its report
#
# A hospital may not share its patients' records, but may share a table like theirs. We fit the
# diabetes study that comes with scikit-learn, draw as many patients as it has, and then examine
# the result. Do columns and pairs look real? Is any row a copy? And does an analysis of the
# synthetic table reach the conclusions of the real one?

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from marginals import MDMA, synthesis_report

study = load_diabetes(as_frame=True, scaled=False).frame
study = study.rename(columns={"bp": "pressure", "s6": "glucose", "target": "progression"})
study["sex"] = study["sex"].map({1.0: "A", 2.0: "B"})  # the study does not say which is which
study["lipids"] = np.exp(study["s5"]).round()  # s5 is the logarithm of a whole number
study["pressure"] = study["pressure"].round()  # an average of readings, whole in most rows
study = study[["age", "sex", "bmi", "pressure", "lipids", "glucose", "progression"]]
order = np.random.default_rng(0).permutation(len(study))
fitted, unseen = study.iloc[order[:300]], study.iloc[order[300:]]
fitted.describe().round(1)

# %% [markdown]
# ## Draw
#
# Ages are whole numbers and the body mass index has one decimal. The model infers this, and its
# draws follow it: a synthetic age of 51.37 would give the table away at once.

# %%
model = MDMA(tensor="copula", width=3, max_steps=300, random_state=0).fit(fitted)
synthetic = model.sample(len(fitted), random_state=0)
synthetic.head()

# %% [markdown]
# ## The report
#
# The AUC measures how well boosted trees tell real rows from synthetic ones: 0.5 is a coin toss.
# Copies are found by distance: a synthetic row should be no closer to a real one than another real
# patient is. Held-out rows show how close that is.

# %%
report = synthesis_report(fitted, synthetic, holdout=unseen)
print(report)

# %% [markdown]
# For comparison, shuffle each column by itself. Every column is now perfect, and the table is
# useless: all dependence is gone.

# %%
random = np.random.default_rng(1)
shuffled = pd.DataFrame({name: random.permutation(fitted[name].to_numpy()) for name in fitted})
broken = synthesis_report(fitted, shuffled, holdout=unseen)
for name, found in (("synthetic", report), ("shuffled", broken)):
    summary = found.summary
    print(
        f"{name}: columns differ by {summary['column_distance']:.3f}, "
        f"pairs by {summary['pair_difference']:.3f}, AUC {summary['auc']:.2f}"
    )

# %% [markdown]
# ## Is it any use?
#
# Train on synthetic patients and test on held-out real ones. The regression loses little.

# %%
numbers = ["age", "bmi", "pressure", "lipids", "glucose"]


def skill(rows: pd.DataFrame) -> float:
    """Return R² on unseen patients of a regression fitted to rows."""
    line = LinearRegression().fit(rows[numbers], rows["progression"])
    return float(line.score(unseen[numbers], unseen["progression"]))


real_skill, own_skill, lost_skill = skill(fitted), skill(synthetic), skill(shuffled)
print(f"R²: real {real_skill:.2f}, synthetic {own_skill:.2f}, shuffled {lost_skill:.2f}")

# %% [markdown]
# A low AUC and no copies do not prove privacy: the report finds rows that are too close to real
# ones, but it cannot show that the rows reveal nothing about a patient.
#
# ## The picture
#
# Left: real and synthetic patients. Middle: dependence of each pair of columns, synthetic against
# real, on the diagonal if it is preserved; shuffling puts everything near zero. Right: the distance
# to the nearest fitted patient, for synthetic patients and for held-out real ones. A curve to the
# left of the grey one would mean copies.

# %%
figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.2), layout="constrained")
for rows, label, colour in ((fitted, "real", "0.45"), (synthetic, "synthetic", "#0072B2")):
    axes[0].scatter(
        rows["bmi"], rows["progression"], s=9, alpha=0.6, lw=0, color=colour, label=label
    )
axes[0].set(xlabel="body mass index", ylabel="progression after a year")
for found, label, colour in ((report, "synthetic", "#0072B2"), (broken, "shuffled", "#D55E00")):
    axes[1].scatter(
        found.pairs["real"], found.pairs["synthetic"], s=14, lw=0, color=colour, label=label
    )
axes[1].axline((0, 0), slope=1, color="0.6", lw=0.8, zorder=0)
axes[1].set(xlabel="dependence, real", ylabel="dependence, drawn")
for distances, label, colour in (
    (report.copying.unseen_to_real, "real, set aside", "0.45"),
    (report.copying.to_real, "synthetic", "#0072B2"),
):
    axes[2].step(
        np.sort(distances),
        np.arange(1, len(distances) + 1) / len(distances),
        color=colour,
        label=label,
    )
axes[2].set(xlabel="distance to the nearest fitted patient", ylabel="share of rows")
for ax in axes:
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
figure
