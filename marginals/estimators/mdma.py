"""The scikit-learn estimator of a table's joint distribution."""

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from marginals.cells import Evidence
from marginals.columns import Schema, encode, infer
from marginals.columns.table_coercion import input_frame
from marginals.densities import Density, Mixture, build
from marginals.densities.averaged import averaged
from marginals.estimators.member_list import MemberList
from marginals.estimators.updating import UpdateResult, updated
from marginals.io.model_files import save
from marginals.queries import TableDensity, TableView
from marginals.queries.named_rows import places, seed_of
from marginals.queries.ordered_draws import with_likely_orders
from marginals.runtime.devices import device_of
from marginals.selection.recipes import single_recipe
from marginals.selection.search import Found, search
from marginals.structure import Tree
from marginals.training import FitResult, Record, fit

if TYPE_CHECKING:
    from marginals.checking import CheckReport, ConditionalScore


class TableInput(BaseEstimator):
    """scikit-learn's conventions for an estimator that accepts any table."""

    def _name_features(self, names: Sequence[Any]) -> None:
        """Set the number of features and, if all are strings, their names."""
        self.n_features_in_ = len(names)
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


@final
class MDMA(DensityMixin, TableDensity, TableInput):
    """Learn the joint distribution of a table and answer queries by column name.

    By default, several models of different families are fitted within the time of `effort`, then
    selected and mixed by validation. If an option of a single model is given (`tensor` to
    `max_steps` below), only one model with these options is fitted.

    Args:
        effort: "quick" (Gaussian mixtures by EM, no training), "fast" (15 seconds of training, 10
            on a GPU), "balanced" (50 on all cores, 30 on a GPU) or "best" (500 and 120).
        tensor: "ht", "copula", "mera", "cp" or "full", for a single model; see `marginals.build`.
        width: the number of components; None chooses by the number of rows.
        leaves: "normal" or "logistic" on a learned scale of each column, or "neural", a network
            for each component as in the paper.
        depth, hidden: layers and units of the networks; see `marginals.build`.
        rank, common: the number of factors in each copula component, and of factors that all share.
        tree: how columns are grouped: "coupled", "varied", "balanced", "random" or a `Tree`.
        noise: standard deviation of the noise added to training rows, relative to each column's;
            None chooses by the number of rows.
        learning_rate: the learning rate of a single model.
        batch_size: rows in a training step of a single model.
        max_steps: the most training steps of a single model; None chooses by the size of the table.
        focus: one or more columns whose conditionals given the others count in training, as well as
            the joint: answers about them improve, at some cost to all others. Members are then
            weighted by these conditionals. The model is still one joint that answers every query.
        aim: "joint" weights members by the likelihood of held-out rows. "answers" fits models with
            equal weights whose conditionals are to be averaged; see `averaged`.
        columns: by name, kinds that override the inferred ones.
        guess: infer grids, atoms, bounds and tables of few numbers from the values of columns that
            `columns` does not name. "smooth" models such numbers as continuous and rounds returned
            values. With False, kinds follow from dtypes alone.
        handle_unknown: how tables and evidence with categories not seen in training are read:
            "error" rejects them, "missing" treats their cells as missing. Events and query strings
            always reject them.
        max_seconds: the time limit of the fit, instead of the effort's; for a single model, the
            time limit of its training.
        validation_fraction: the share of rows held out to validate a single model.
        n_jobs: processes on a CPU; None for all cores, or one for few seconds.
        device: "cpu", "cuda" or None for a GPU if there is one.
        progress: show a progress bar; None shows it on a terminal only.
        random_state: seed for initialisation, split and batching.

    Attributes:
        module_: the density underneath, a torch module.
        schema_: the kind of each column, and why.
        result_: the training history, on the model's scale. For a mixture, it describes the member
            with the largest weight, except for `best_loss` and `seconds`.
        members_: for a mixture, the options, weight, score and cost of each fitted model; it prints
            as a table, which is `members_.frame`. The score is the mean log value of validation
            rows, or of a focus given the other columns.
        rows_: the number of fitted rows.

    >>> frame = pd.DataFrame({"age": [30, 40, 50, 60] * 10, "city": list("abab") * 10})
    >>> model = MDMA(width=4, max_steps=20, random_state=0).fit(frame)
    >>> 0 < model.prob({"age": (35, None)}, given={"city": "a"}) < 1
    True
    """

    module_: Density
    schema_: Schema
    result_: FitResult
    members_: MemberList
    rows_: int

    def __init__(
        self,
        *,
        effort: str = "fast",
        tensor: str | None = None,
        width: int | None = None,
        leaves: str | None = None,
        depth: int | None = None,
        hidden: int | None = None,
        rank: int | None = None,
        common: int | None = None,
        tree: Any = None,
        noise: float | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        max_steps: int | None = None,
        focus: Any = None,
        aim: str = "joint",
        columns: Mapping[Any, Any] | None = None,
        guess: bool | str = True,
        handle_unknown: str = "error",
        max_seconds: float | None = None,
        validation_fraction: float = 0.1,
        n_jobs: int | None = None,
        device: str | None = None,
        progress: bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.effort = effort
        self.tensor = tensor
        self.width = width
        self.leaves = leaves
        self.depth = depth
        self.hidden = hidden
        self.rank = rank
        self.common = common
        self.tree = tree
        self.noise = noise
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.focus = focus
        self.aim = aim
        self.columns = columns
        self.guess = guess
        self.handle_unknown = handle_unknown
        self.max_seconds = max_seconds
        self.validation_fraction = validation_fraction
        self.n_jobs = n_jobs
        self.device = device
        self.progress = progress
        self.random_state = random_state

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Any = None,
        sample_weight: Any = None,
        *,
        upper: Any = None,
        validation: Any = None,
    ) -> "MDMA":
        """Learn the distribution of a table.

        Args:
            X: a DataFrame, array or tensor; missing cells are NaN, None, NA or NaT.
            y: ignored.
            sample_weight: one weight per row.
            upper: upper ends of cells, if `X` holds lower ends; equal ends are an exact value.
            validation: held-out rows, instead of a share of `X`.
        """
        started = time.monotonic()
        frame = input_frame(X)
        top = None if upper is None else input_frame(upper)
        seed = seed_of(self.random_state)
        schema = infer(
            frame, self.columns, upper=top, guess=self.guess, unknown=self.handle_unknown
        )
        reading = schema.reading(self.handle_unknown)
        data = encode(reading, frame, upper=top).evidence
        held = None if validation is None else encode(reading, input_frame(validation)).evidence
        weight = None if sample_weight is None else torch.as_tensor(np.asarray(sample_weight))
        device, options = device_of(self.device), schema.build_options
        focus = places(schema, self.focus)
        if self._is_single():
            found = self._fit_one(data, held, weight, options, device, seed, focus=focus)
        else:
            place = {"options": options, "device": str(device), "seed": seed}
            found = self._search(data, held, focus=focus, weight=weight, started=started, **place)
        kind = "tensor" if isinstance(X, Tensor) else "array"
        self._keep_fit(found, schema, len(frame), "frame" if isinstance(X, pd.DataFrame) else kind)
        self._training = data
        return self

    def _search(self, data: Evidence, held: Evidence | None, **rest: Any) -> Found:
        """Search for a mixture by this estimator's settings; the rest is for `search`."""
        return search(
            data,
            held,
            effort=self.effort,
            aim=self.aim,
            seconds=self.max_seconds,
            jobs=self.n_jobs,
            progress=self.progress,
            **rest,
        )

    def _keep_fit(self, found: Found, schema: Schema, rows: int, kind: str) -> None:
        """Keep what was learned from so many rows of a table of some kind."""
        self.module_, self.result_ = found.model, found.result
        self.members_ = MemberList(found.members)
        self.schema_ = with_likely_orders(schema, found.model)
        self.rows_, self._fitted_kind = rows, kind
        self._name_features(schema.names)

    def _is_single(self) -> bool:
        return any(getattr(self, name) is not None for name in _BUILD + _TRAINING)

    def _fit_one(
        self,
        data: Evidence,
        held: Evidence | None,
        weight: Tensor | None,
        options: Mapping[str, Any],
        device: torch.device,
        seed: int,
        rows: int | None = None,
        focus: Sequence[int] = (),
        **streaming: Any,
    ) -> Found:
        """Fit one model with the options given, of which `rows` of a stream choose the size."""
        recipe = single_recipe(rows or len(data), self._given(_BUILD), self._given(_TRAINING))
        recipe = recipe.focused(focus) if focus else recipe
        model = build(data, **recipe.build, **options, sample_weight=weight, seed=seed).to(device)
        result = fit(
            model,
            data,
            validation=held,
            sample_weight=weight,
            **recipe.fit,
            **streaming,
            max_seconds=self.max_seconds,
            validation_fraction=self.validation_fraction,
            progress=self.progress,
            seed=seed,
        )
        return Found(model, result)

    def _given(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the options that are not None."""
        every = {name: getattr(self, name) for name in names}
        return {name: option for name, option in every.items() if option is not None}

    def update(
        self,
        X: Any,  # noqa: N803
        *,
        weight: float = 1.0,
        old_rows: float | None = None,
        max_seconds: float | None = None,
        max_steps: int | None = None,
        random_state: Any = 0,
    ) -> UpdateResult:
        """Continue training the fitted model with new rows of the same table.

        Training starts from the model's weights and keeps the weights that do best on held-out
        rows, new and old. The old rows are the fitted ones; a model loaded from a file no longer
        holds them and uses its own draws instead. Column kinds do not change; a category that the
        model lacks is treated according to `handle_unknown`.

        Args:
            X: a table with some or all of the columns.
            weight: the weight of each new row, where an old one has weight 1.
            old_rows: the number of rows that the old ones count as; None for the number fitted, 0
                to forget them.
            max_seconds: the time limit of training.
            max_steps: the most training steps.
            random_state: seed for draws, split and batching.

        Returns:
            The scores of held-out rows before and after, and the training history.
        """
        limits = {"max_seconds": max_seconds, "max_steps": max_steps, "progress": self.progress}
        density, schema = self._parts()
        self.module_, found = updated(
            density,
            schema,
            X,
            self._fitted_rows(),
            old_rows=self.rows_ if old_rows is None else old_rows,
            new_weight=weight,
            seed=seed_of(random_state),
            **{name: limit for name, limit in limits.items() if limit is not None},
        )
        self.rows_, self.result_ = self.rows_ + found.rows, found.result
        if isinstance(self.module_, Mixture):
            shares = self.module_.log_weights().exp().tolist()
            kept = [member for member in self.members_ if member["weight"] > 0]
            for member, share in zip(kept, shares, strict=False):
                member["weight"] = share
        self.__dict__.pop("_training", None)  # of the old rows alone
        return found

    def score_samples(self, X: Any) -> Any:  # noqa: N803
        """Return the log density of each row; missing cells are marginalised.

        Args:
            X: a DataFrame, array or tensor; missing cells are marginalised.
        """
        _, schema = self._parts()
        frame = input_frame(X)
        if isinstance(X, pd.DataFrame):
            return self.logpdf(X)
        if frame.shape[1] != len(schema):
            raise ValueError(
                f"X has {frame.shape[1]} features, but MDMA is expecting {len(schema)} features as "
                "input. Give all columns, or a DataFrame with some of them by name."
            )
        named = frame.set_axis(list(schema.names), axis=1)
        return self.logpdf(X if isinstance(X, Tensor) else named)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return the mean log density of rows.

        Args:
            X: a DataFrame, array or tensor; missing cells are marginalised.
            y: ignored.
        """
        return float(np.mean(np.asarray(self.score_samples(X))))

    def check(
        self,
        X: Any,  # noqa: N803
        *,
        rows: int = 10_000,
        questions: int = 100,
        progress: bool | None = None,
        random_state: Any = 0,
    ) -> "CheckReport":
        """Report how far to trust the model on a table: the fitted one or, better, a held-out one.

        The report compares each column with the model's exact margin, each pair of columns with
        draws, each cell with its column's distribution given the other columns, and the answers of
        table and model to plain questions. It also counts draws that break rules which every row
        obeys. It names the columns to look at first. Print it, plot it (`.plot()`), or read its
        frames.

        Args:
            X: a table with some of the model's columns; other columns are ignored.
            rows: the most rows to check; a larger table is sampled.
            questions: approximate number of plain questions.
            progress: show a progress bar; None shows it on a terminal only.
            random_state: seed for rows, questions and draws.
        """
        from marginals.checking import check  # loads scikit-learn's classifiers

        options: dict[str, Any] = {"rows": rows, "questions": questions, "progress": progress}
        return check(TableView(*self._parts()), X, **options, random_state=random_state)

    def averaged(self) -> TableView:
        """Return a view whose conditionals are means of the members' conditionals.

        The joint weights its members by the likelihood of the evidence, so one sharp member often
        dominates the answer. The plain mean predicts better where members are uncertain; imputer,
        regressor and classifier use it. Its conditionals do not come from a single joint.
        """
        density, schema = self._parts()
        return TableView(averaged(density), schema, self._kind(), self._row_count())

    def score_conditional(
        self,
        X: Any,  # noqa: N803
        *,
        columns: Any = None,
        rows: int = 1000,
        average: bool = False,
        random_state: Any = 0,
    ) -> "ConditionalScore":
        """Hide observed cells of rows and score the model's answers for them.

        Hidden cells imitate the gaps of `X`: each row takes the gaps of a random row that has some.
        If `X` has none, they imitate the gaps of the fitted rows, if the model still holds them;
        otherwise 30 % of the cells are hidden at random. Use held-out rows: fitted rows flatter the
        model.

        Args:
            X: a table with some of the model's columns.
            columns: the columns to hide in every row, as for a prediction; None imitates gaps.
            rows: the most rows to score; a larger table is sampled.
            average: score the answers of `averaged` instead.
            random_state: seed for rows and cells.

        Returns:
            A report with CRPS, coverage, log loss, Brier score and log score by column and overall.
        """
        from marginals.checking import score_conditional

        return score_conditional(
            self.averaged() if average else TableView(*self._parts()),
            X,
            columns=columns,
            gaps=self._fitted_rows(),
            rows=rows,
            random_state=random_state,
        )

    def explore(self, data: Any = None) -> Any:
        """Return a notebook widget in which evidence on one column updates all others.

        It needs the extra `explore`. `marginals explore model.mdma` opens the same as a web page.

        Args:
            data: a DataFrame of rows to show next to the model.
        """
        from marginals.explorer.widget import explore  # loads the front end

        return explore(self, data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, its schema, settings and training history to one file.

        Args:
            path: the file to write, usually `.mdma`; an existing file is replaced.
        """
        density, schema = self._parts()
        params = {key: value for key, value in self.get_params().items() if _plain(value)}
        extra = {
            "estimator": "MDMA",
            "schema": schema.to_dict(),
            "params": params,
            "declared": [schema.names[schema.index(name)] for name in self.columns or {}],
            "tree": self.tree.to_json() if isinstance(self.tree, Tree) else None,
            "result": dataclasses.asdict(self.result_),
            "members": self.members_,
            "kind": self._fitted_kind,
            "rows": self.rows_,
        }
        save(density, path, extra=extra)

    def _parts(self) -> tuple[Density, Schema]:
        check_is_fitted(self, "module_")
        return self.module_, self.schema_.reading(self.handle_unknown)

    def _kind(self) -> str:
        return self._fitted_kind

    def _row_count(self) -> int | None:
        return self.rows_

    def _fitted_rows(self) -> Evidence | None:
        return getattr(self, "_training", None)

    def __getstate__(self) -> Any:
        # Copies do not take the training rows along, and neither do files.
        return {key: part for key, part in super().__getstate__().items() if key != "_training"}


def restore(density: Density, schema: Schema, extra: Mapping[str, Any]) -> MDMA:
    """Rebuild an estimator from the content that `MDMA.save` wrote."""
    model = MDMA(**extra["params"])
    model.module_, model.schema_ = density, schema
    if extra["declared"]:
        model.columns = {name: model.schema_[name].kind for name in extra["declared"]}
    if extra["tree"] is not None:
        model.tree = Tree.from_json(extra["tree"])
    history = tuple(Record(**record) for record in extra["result"]["history"])
    model.result_ = FitResult(**{**extra["result"], "history": history})
    model.members_ = MemberList(extra["members"])
    model._fitted_kind, model.rows_ = extra["kind"], int(extra["rows"])
    model._name_features(model.schema_.names)
    return model


# The options of a single model, and of its training.
_BUILD = ("tensor", "width", "leaves", "depth", "hidden", "rank", "common", "tree")
_TRAINING = ("noise", "learning_rate", "batch_size", "max_steps")


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
