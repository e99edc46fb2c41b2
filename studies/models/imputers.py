"""Ways to fill gaps: of tables, with draws and intervals, and of rows of numbers."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (makes the next one importable)
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from marginals import MDMA, MDMAImputer
from studies.data.tables import numeric
from studies.harness.available import check_choice, installed

Array = npt.NDArray[np.float64]
LEVEL = 0.9
# Of miceforest: draws are those of several chains after rounds that are thrown away.
CHAINS, BURN_IN = 5, 1
DRAWS = 20  # of every method: fewer have no 90 % interval
NEIGHBOURS, BLOCK = 3, 5_000  # rows among which neighbours of a row are looked for


@final
@dataclass(frozen=True)
class Filled:
    """A table filled by one method.

    Args:
        point: One value for each gap; of numbers, an estimate of the mean.
        draws: Tables whose filled cells are drawn; none if the method has no distribution.
        lower, upper: Ends of the interval of each gap in a numeric column, if there are any.
        fit_s: Seconds until the method could fill, where they can be told apart.
        settings: What the method was given or found.
    """

    point: pd.DataFrame
    draws: list[pd.DataFrame] = field(default_factory=list)
    lower: pd.DataFrame | None = None
    upper: pd.DataFrame | None = None
    fit_s: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def fill_mdma(holes: pd.DataFrame, seed: int, **options: Any) -> Filled:
    """Fill as `MDMAImputer` does by default, or with other options of its model."""
    started = time.process_time()
    model = MDMA(random_state=seed, **{"device": "cpu", "progress": False, **options})
    model = MDMAImputer(model).fit(holes).model_
    fit_s = time.process_time() - started
    answers = model.averaged()
    ends = answers.impute_interval(holes, LEVEL)
    return Filled(
        point=answers.impute(holes),
        draws=answers.impute(holes, "draw", draws=DRAWS, random_state=seed),
        lower=_ends(holes, ends, "lower"),
        upper=_ends(holes, ends, "upper"),
        fit_s=fit_s,
        settings={"members": list(model.members_)},
    )


def _ends(holes: pd.DataFrame, lines: pd.DataFrame, side: str) -> pd.DataFrame:
    """Return the ends of gaps on one side as a table, from one line for each gap."""
    table = holes[numeric(holes)].astype(np.float64)
    for name, group in lines.groupby("column", sort=False):
        if name in table:
            table.loc[group["row"], name] = group[side].to_numpy(dtype=np.float64)
    return table


def fill_iterative(holes: pd.DataFrame, seed: int) -> Filled:
    """Fill by chained Bayesian ridge regressions; categories are columns of 0 and 1."""
    coded = Coded(holes, spare_last=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says on most tables that it has not converged
        point = IterativeImputer(random_state=seed).fit_transform(coded.numbers)
        drawn = [
            IterativeImputer(sample_posterior=True, random_state=1000 * seed + i).fit_transform(
                coded.numbers
            )
            for i in range(DRAWS)
        ]
    return _from_draws(coded.decoded(point), [coded.decoded(table) for table in drawn])


def fill_knn(holes: pd.DataFrame, seed: int) -> Filled:
    """Fill by the mean of the five nearest rows, standardised; no distribution."""
    coded = Coded(holes)
    return Filled(coded.decoded(KNNImputer().fit_transform(coded.numbers)))


def fill_miceforest(holes: pd.DataFrame, seed: int) -> Filled:
    """Fill by chained gradient boosting with mean matching; the mean of the draws is the point."""
    miceforest = installed("miceforest")
    numbers = numeric(holes)
    names = [f"c{i}" for i in range(holes.shape[1])]  # LightGBM takes no special characters
    data = holes.set_axis(names, axis=1)
    for name, original in zip(names, holes.columns, strict=True):
        data[name] = data[name].astype("float64" if original in numbers else "category")
    try:
        drawn, matching = _mice_draws(miceforest, data, "normal", seed), "normal"
    except ValueError:
        # Matching by log odds fails where a class has probability 0.
        drawn, matching = _mice_draws(miceforest, data, "fast", seed), "fast"
    drawn = [table.set_axis(holes.columns, axis=1) for table in drawn]
    point = drawn[0].copy()
    for name in holes.columns:
        if name in numbers:
            point[name] = np.mean([table[name].to_numpy() for table in drawn], axis=0)
        else:
            stacked = pd.concat([table[name].astype(str) for table in drawn], axis=1)
            point[name] = stacked.mode(axis=1)[0].to_numpy()
    return replace(_from_draws(point, drawn), settings={"mean_match_strategy": matching})


def _mice_draws(miceforest: Any, data: pd.DataFrame, matching: str, seed: int) -> list[Any]:
    """Return completed tables of several chains; `matching` is that of categories."""
    words = [name for name in data.columns if data[name].dtype == "category"]
    each = DRAWS // CHAINS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = miceforest.ImputationKernel(
            data.copy(),
            num_datasets=CHAINS,
            mean_match_strategy=dict.fromkeys(words, matching),
            save_all_iterations_data=True,
            random_state=seed,
        )
        kernel.mice(BURN_IN + each, num_threads=1, verbosity=-1)
    return [
        kernel.complete_data(chain, BURN_IN + 1 + i) for chain in range(CHAINS) for i in range(each)
    ]


def fill_mean(holes: pd.DataFrame, seed: int) -> Filled:
    """Fill by the column's mean or most frequent category; draws are its observed values."""
    rng = np.random.default_rng(seed)
    numbers = numeric(holes)
    point, drawn = holes.copy(), [holes.copy() for _ in range(DRAWS)]
    for name in holes.columns:
        seen = holes[name].dropna()
        point[name] = _put(holes[name], seen.mean() if name in numbers else seen.mode().iloc[0])
    for table in drawn:
        for name in holes.columns:
            table[name] = _put(holes[name], rng.choice(holes[name].dropna(), len(holes)))
    return _from_draws(point, drawn)


def _put(column: pd.Series, values: Any) -> pd.Series:
    return column.where(column.notna(), values)


def _from_draws(point: pd.DataFrame, drawn: list[pd.DataFrame]) -> Filled:
    numbers = numeric(drawn[0])
    stacked = np.stack([table[numbers].to_numpy(dtype=np.float64) for table in drawn])
    flat = stacked.reshape(len(drawn), -1)
    low, high = (
        pd.DataFrame(end.reshape(stacked.shape[1:]), point.index, numbers)
        for end in predictive_interval(flat, LEVEL)
    )
    return Filled(point, drawn, low, high)


def predictive_interval(draws: Array, level: float) -> tuple[Array, Array]:
    """Return the ends (N,) that hold a further draw with probability `level`, of draws (S, N).

    Order statistics at level (S + 1): exact for exchangeable draws, unlike plain quantiles of few.
    """
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    low, high = np.quantile(draws, tails, axis=0, method="weibull")
    return low, high


@final
class Coded:
    """A table as standardised numbers, with a column of 0 and 1 for each category.

    Args:
        holes: The table.
        spare_last: Leave out the last category, which the others determine: all together they add
            up to one, and regressions of each on the rest would return what they start from.
    """

    def __init__(self, holes: pd.DataFrame, spare_last: bool = False) -> None:
        self.holes, self.of_numbers, self.spare_last = holes, numeric(holes), spare_last
        self.categories = {
            c: sorted(holes[c].dropna().unique()) for c in holes if c not in self.of_numbers
        }
        parts: list[Array] = []
        self.scales: dict[str, tuple[float, float]] = {}
        for name in holes.columns:
            if name in self.of_numbers:
                values = holes[name].to_numpy(dtype=np.float64, na_value=np.nan)
                middle, spread = float(np.nanmean(values)), float(np.nanstd(values)) or 1.0
                self.scales[name] = (middle, spread)
                parts.append(((values - middle) / spread)[:, None])
            else:
                flags = np.stack([holes[name] == c for c in self.categories[name]], 1).astype(float)
                flags[holes[name].isna()] = np.nan
                parts.append(flags[:, :-1] if spare_last else flags)
        self.widths = [part.shape[1] for part in parts]
        self.numbers = np.concatenate(parts, axis=1)

    def decoded(self, numbers: Array) -> pd.DataFrame:
        """Return a completed array as a table; a category is that of the largest number."""
        table, start = {}, 0
        for name, width in zip(self.holes.columns, self.widths, strict=True):
            part = numbers[:, start : start + width]
            start += width
            if name in self.of_numbers:
                middle, spread = self.scales[name]
                table[name] = part[:, 0] * spread + middle
            else:
                if self.spare_last:
                    part = np.column_stack([part, 1 - part.sum(1)])
                table[name] = np.array(self.categories[name], dtype=object)[part.argmax(1)]
        return pd.DataFrame(table, index=self.holes.index)


METHODS: dict[str, Callable[..., Filled]] = {
    "mdma": fill_mdma,
    "iterative": fill_iterative,
    "miceforest": fill_miceforest,
    "knn": fill_knn,
    "mean": fill_mean,
}

# Rows of numbers --------------------------------------------------------------------------------


def imputer(how: str, seed: int) -> Any:
    """Return an imputer: "mean", "iterative", or "mice", which draws what it fills in."""
    check_choice("the imputation", how, ("mean", "iterative", "mice"))
    if how == "mean":
        return SimpleImputer(keep_empty_features=True)
    options = {"random_state": seed, "keep_empty_features": True}
    return IterativeImputer(sample_posterior=how == "mice", **options)


def fill_rows(train: Array, val: Array, how: str, seed: int) -> tuple[Array, Array]:
    """Fill training and validation rows, the latter by the former except for "knn"."""
    if how == "knn":
        return _by_neighbours(train), _by_neighbours(val)
    chosen = imputer(how, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on most tables, that it has not converged
        return chosen.fit_transform(train), chosen.transform(val)


def _by_neighbours(rows: Array) -> Array:
    """Fill by the three nearest rows, in blocks as the authors do."""
    blocks = np.array_split(rows, max(1, round(len(rows) / BLOCK)))
    return np.concatenate([KNNImputer(n_neighbors=NEIGHBOURS).fit_transform(b) for b in blocks])
