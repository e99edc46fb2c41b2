"""Cross-fitting: every row is judged by a model that has not seen it."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.utils import check_random_state

from marginals.cells import Evidence
from marginals.columns import Continuous, Schema, encode
from marginals.columns.inference import infer
from marginals.densities import Density
from marginals.estimators.mdma import MDMA, _frame
from marginals.queries import Estimate, IndependenceResult
from marginals.queries import information as tasks
from marginals.queries.dependence import as_frames
from marginals.queries.independence_tester import IndependenceTester, places
from marginals.selection.folds import fit_folds, split_folds


@final
class CrossFit:
    """Rows of a table in folds, each under a model that was fitted to the other folds.

    Information and tests that are asked of it are free of overfitting: what a model has learnt by
    heart does not help it on rows that it has not seen. Made by `cross_fit`.

    Args:
        schema: of the columns.
        parts: for each fold, its model and its rows, on the model's scale.
        rows: for each fold, the places of its rows in the table.
    """

    def __init__(
        self,
        schema: Schema,
        parts: Sequence[tuple[Density, Evidence]],
        rows: Sequence[npt.NDArray[np.intp]],
    ) -> None:
        self.schema, self.parts, self.rows = schema, tuple(parts), tuple(rows)

    @property
    def names(self) -> list[Any]:
        """The names of the columns."""
        return list(self.schema.names)

    def mutual_information(
        self, a: Any, b: Any, given: Any = None, *, permutations: int = 0, random_state: Any = 0
    ) -> Estimate:
        """Return the mutual information of columns in nats, perhaps given others.

        Args:
            a, b: a column or several on each side.
            given: columns to condition on.
            permutations: for a p-value, how often the cells of `b` are dealt out anew.
            random_state: of the permutations.
        """
        first, second, third = (places(self.schema, side) for side in (a, b, given))
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        return tasks.folded_information(
            self.parts, first, second, third or None, permutations, seed
        )

    def pointwise_mutual_information(self, a: Any, b: Any, given: Any = None) -> Any:
        """Return the log ratio p(a, b | c) / (p(a | c) p(b | c)) of each row, in their order."""
        first, second, third = (places(self.schema, side) for side in (a, b, given))
        out = np.empty(sum(map(len, self.rows)))
        with torch.no_grad():
            for (density, cells), rows in zip(self.parts, self.rows, strict=True):
                value = tasks.pointwise_mutual_information(
                    density, first, second, cells, third or None
                )
                out[rows] = value.double().cpu().numpy()
        return out

    def mutual_information_matrix(
        self, columns: Any = None, given: Any = None, *, stderr: bool = False
    ) -> Any:
        """Return the mutual information of all pairs of columns in nats.

        Args:
            columns: two or more; by default all that are not given.
            given: columns to condition on in every pair.
            stderr: return the standard errors as a second frame.
        """
        known = places(self.schema, given)
        asked = None if columns is None else places(self.schema, columns)
        found = tasks.folded_information_matrix(self.parts, asked, known or None)
        return as_frames(found, self.schema, stderr)

    def independence_test(
        self, x: Any, y: Any, given: Any = None, **options: Any
    ) -> IndependenceResult:
        """Test whether columns are independent, perhaps given others.

        Args:
            x, y: a column or several on each side.
            given: columns to condition on.
            options: see `marginals.queries.independence_test`.
        """
        return self.independence_tester(**options).independence_test(x, y, given)

    def independence_tester(self, *, data: Any = None, **options: Any) -> IndependenceTester:
        """Return what makes many tests at these rows, each transform once.

        Args:
            data: None, as the rows are those that were fitted.
            options: see `marginals.queries.independence_test`.
        """
        if data is not None:
            raise ValueError(
                "Expected no `data` beside cross-fitted models: each tests the rows it has not "
                "seen. Fit an `MDMA` to test others."
            )
        return IndependenceTester(self.schema, self.parts, **options)


def cross_fit(
    X: Any,  # noqa: N803 (scikit-learn's name)
    model: MDMA | None = None,
    *,
    folds: int = 5,
    columns: Any = None,
    scores: bool = True,
    random_state: Any = 0,
) -> CrossFit:
    """Fit a model to all rows but those of each fold in turn.

    Args:
        X: a DataFrame, array or tensor; missing cells are NaN, None, NA or NaT.
        model: an unfitted `MDMA`, of which every fold gets a copy. None for Gaussian mixtures of
            several sizes on the columns' normal scores, found by EM: a second for hundreds of
            rows, seconds for thousands.
        folds: their number.
        columns: the kinds of some columns, as of `MDMA`.
        scores: replace continuous columns by their normal scores first. Neither information nor
            independence change under increasing maps, and heavy tails are then no trouble.
        random_state: of the folds, and of the default models.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=300)
    >>> x, y = z + rng.normal(size=300), z + rng.normal(size=300)
    >>> found = cross_fit(pd.DataFrame({"x": x, "y": y, "z": z}), folds=2)
    >>> found.independence_test("x", "y").pvalue < 1e-6
    True
    >>> found.independence_test("x", "y", given="z").pvalue > 0.001
    True
    """
    frame = _frame(X)
    if not 2 <= folds <= len(frame):
        raise ValueError(
            f"Expected `folds` to lie between 2 and the {len(frame)} rows of `X`; got {folds}."
        )
    kinds = columns if columns is not None else getattr(model, "columns", None)
    schema = infer(frame, kinds)
    if scores:
        frame, schema = _normal_scores(frame, schema)
    random = check_random_state(random_state)
    index = split_folds(len(frame), folds, random)
    rows = [held.numpy() for held in index]
    data = encode(schema, frame).evidence
    seed = int(random.randint(np.iinfo(np.int32).max))
    if model is not None:
        return CrossFit(schema, [_fitted(model, schema, frame, held) for held in rows], rows)
    models = fit_folds(data, index, options=schema.build_options, seed=seed)
    return CrossFit(schema, [(m, data.rows(i)) for m, i in zip(models, index, strict=True)], rows)


def _fitted(
    model: MDMA, schema: Schema, frame: pd.DataFrame, held: npt.NDArray[np.intp]
) -> tuple[Density, Evidence]:
    """Fit a copy to all rows but those held out; return it with these, on its own scale."""
    own = clone(model).set_params(columns={c.name: c.kind for c in schema})
    own.fit(frame.iloc[np.setdiff1d(np.arange(len(frame)), held)])
    return own.module_, encode(own.schema_, frame.iloc[held]).evidence


def _normal_scores(frame: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, Schema]:
    """Replace continuous columns by the normal quantiles of their ranks; ties share theirs."""
    out, kinds = frame.copy(), {}
    for place, column in enumerate(schema):
        kind, values = column.kind, frame.iloc[:, place]
        plain = isinstance(kind, Continuous) and kind.resolution is None and not kind.atoms
        if not plain or isinstance(values.dtype, pd.IntervalDtype):
            kinds[column.name] = kind
            continue
        known = values.notna().to_numpy()
        ranks = rankdata(values[known])
        score = np.full(len(frame), np.nan)
        score[known] = ndtri((ranks - 0.5) / max(1, len(ranks)))
        out.isetitem(place, score)
        kinds[column.name] = Continuous()
    return out, infer(out, kinds)
