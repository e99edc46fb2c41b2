"""Cross-fitting: each row is judged by a model that was not fitted to it."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.utils import check_random_state

from marginals.cells import Evidence
from marginals.columns import Continuous, Schema, encode
from marginals.columns.inference import infer
from marginals.columns.table_coercion import input_frame
from marginals.densities import Density
from marginals.estimators.mdma import MDMA
from marginals.queries.independence import Independence
from marginals.queries.information import Information
from marginals.queries.positions import Parts
from marginals.selection.folds import fit_folds, split_folds


@final
class CrossFit(Information, Independence):
    """Rows of a table in folds, each with a model fitted to the other folds.

    Every row is held out, so its information and tests are free of overfitting. Create it with
    `cross_fit`.

    Args:
        schema: the schema of the columns.
        parts: for each fold, its model and its rows, on the model's scale.
        rows: for each fold, the positions of its rows in the table.
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

    def pointwise_mutual_information(
        self, a: Any, b: Any, data: Any = None, given: Any = None
    ) -> Any:
        """Return log p(a, b | c) / (p(a | c) p(b | c)) of each row in nats, in the table's order.

        Args:
            a, b: one or more columns on each side.
            data: must be None; the rows are the cross-fitted ones.
            given: columns to condition on.
        """
        found = super().pointwise_mutual_information(a, b, data, given)
        return found[np.argsort(np.concatenate(self.rows))]

    def _columns(self) -> Schema:
        return self.schema

    def _averaged(self, data: Any, samples: int, random_state: Any) -> Parts:
        return self._tested(data)

    def _tested(self, data: Any) -> Parts:
        if data is not None:
            raise ValueError(
                "Expected no `data` with cross-fitted models: each judges its held-out rows. Fit "
                "an `MDMA` to use other rows."
            )
        return self.parts


def cross_fit(
    X: Any,  # noqa: N803 (scikit-learn's name)
    model: MDMA | None = None,
    *,
    folds: int = 5,
    columns: Any = None,
    scores: bool = True,
    random_state: Any = 0,
) -> CrossFit:
    """Fit one model per fold, each to the rows of the other folds.

    Args:
        X: a DataFrame, array or tensor; missing cells are NaN, None, NA or NaT.
        model: an unfitted `MDMA`, copied for every fold. None uses Gaussian mixtures of several
            sizes on the columns' normal scores, fitted by EM: a second for hundreds of rows,
            seconds for thousands.
        folds: the number of folds.
        columns: the kinds of some columns, as in `MDMA`.
        scores: first replace continuous columns by their normal scores. Increasing maps preserve
            information and independence, and this one makes heavy tails harmless.
        random_state: seed for the folds and the default models.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=300)
    >>> x, y = z + rng.normal(size=300), z + rng.normal(size=300)
    >>> found = cross_fit(pd.DataFrame({"x": x, "y": y, "z": z}), folds=2)
    >>> found.independence_test("x", "y").pvalue < 1e-6
    True
    >>> found.independence_test("x", "y", given="z").pvalue > 0.001
    True
    """
    frame = input_frame(X)
    if not 2 <= folds <= len(frame):
        raise ValueError(
            f"Expected `folds` to lie between 2 and the {len(frame)} rows of `X`; got {folds}."
        )
    kinds = columns if columns is not None else getattr(model, "columns", None)
    schema = infer(frame, kinds, guess=getattr(model, "guess", True))
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
    """Fit a copy to all but the held-out rows; return it with these, on its own scale."""
    own = clone(model).set_params(columns={c.name: c.kind for c in schema}, guess=False)
    own.fit(frame.iloc[np.setdiff1d(np.arange(len(frame)), held)])
    return own.module_, encode(own.schema_, frame.iloc[held]).evidence


def _normal_scores(frame: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, Schema]:
    """Replace continuous columns by the normal quantiles of their ranks; ties share one."""
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
    return out, infer(out, kinds, guess=False)
