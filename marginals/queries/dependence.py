"""How columns depend on each other: entropy, information, tests of independence, by name."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.utils import check_random_state

from marginals.cells import Evidence
from marginals.columns import Schema, decode, encode
from marginals.densities import Density
from marginals.queries import information as tasks
from marginals.queries.estimate import Estimate
from marginals.queries.independence import IndependenceResult
from marginals.queries.independence_tester import IndependenceTester, places
from marginals.queries.information import InformationMatrix

_SAMPLES = 10_000


class Dependence(ABC):
    """Questions about how columns depend on each other."""

    @abstractmethod
    def _parts(self) -> tuple[Density, Schema]:
        """Return the density on the model's scale and the schema of its columns."""

    def _fitted_rows(self) -> Evidence | None:
        """Return the rows that were fitted, if they are still at hand."""
        return None

    def entropy(
        self,
        columns: Any = None,
        *,
        data: Any = None,
        samples: int = _SAMPLES,
        random_state: Any = 0,
    ) -> Estimate:
        """Return the entropy of columns (all by default) in nats, in their units.

        The mean of -log p over draws of the model, or over the rows of `data`, with its standard
        error.
        """
        density, schema = self._parts()
        positions = places(schema, list(schema.names) if columns is None else columns)
        names = [schema.names[i] for i in positions]
        frame = self._drawn(samples, random_state) if data is None else data
        cells = encode(schema, frame, columns=names)
        with torch.no_grad():
            value = -(density.log_value(cells.evidence).double().cpu() + cells.log_jacobian)
        known = ~density.checked(cells.evidence).select(positions).lower.isnan().any(1).cpu()
        if not bool(known.any()):
            raise ValueError(f"Expected rows of `data` that know all of {names}; got none.")
        value = value[known]
        error = value.std() / len(value) ** 0.5 if len(value) > 1 else torch.inf
        return Estimate(float(value.mean()), float(error))

    def mutual_information(
        self,
        a: Any,
        b: Any,
        given: Any = None,
        *,
        data: Any = None,
        samples: int = _SAMPLES,
        random_state: Any = 0,
        permutations: int = 0,
    ) -> Estimate:
        """Return the mutual information of columns in nats, perhaps given others.

        The mean of log p(a, b | c) / (p(a | c) p(b | c)) over draws of the model, or over the rows
        of `data`, with its standard error. Take rows that were not fitted, or `cross_fit`: on the
        training rows overfitting reads as information. With `permutations`, `.pvalue` tells how
        often cells of `b` dealt out anew among the rows give as much; without conditions alone.
        """
        density, schema = self._parts()
        first, second, third = (places(schema, side) for side in (a, b, given))
        rows = self._rows(data, samples, random_state)
        return tasks.folded_information(
            [(density, rows)], first, second, third or None, permutations
        )

    def pointwise_mutual_information(self, a: Any, b: Any, data: Any, given: Any = None) -> Any:
        """Return log p(a, b | c) / (p(a | c) p(b | c)) of each row of `data`, in nats."""
        density, schema = self._parts()
        first, second, third = (places(schema, side) for side in (a, b, given))
        cells = encode(schema, data).evidence
        with torch.no_grad():
            found = tasks.pointwise_mutual_information(density, first, second, cells, third or None)
        return found.double().cpu().numpy()

    def total_correlation(
        self,
        columns: Any = None,
        given: Any = None,
        *,
        data: Any = None,
        samples: int = _SAMPLES,
        random_state: Any = 0,
    ) -> Estimate:
        """Return the total correlation of columns (all by default) in nats, perhaps given others.

        The mean of log p(x | c) less the sum of log p(x_j | c): 0 if all are independent.
        """
        density, schema = self._parts()
        known = places(schema, given)
        rest = [i for i in range(len(schema)) if i not in known]
        asked = rest if columns is None else list(places(schema, columns))
        rows = self._rows(data, samples, random_state)
        return tasks.total_correlation(density, asked, known or None, rows)

    def mutual_information_matrix(
        self,
        columns: Any = None,
        given: Any = None,
        *,
        data: Any = None,
        samples: int = _SAMPLES,
        random_state: Any = 0,
        stderr: bool = False,
    ) -> Any:
        """Return the mutual information of all pairs of columns in nats; see the single one.

        With `stderr`, a second frame holds the standard errors.
        """
        density, schema = self._parts()
        known = places(schema, given)
        rest = [i for i in range(len(schema)) if i not in known]
        asked = rest if columns is None else list(places(schema, columns))
        rows = self._rows(data, samples, random_state)
        found = tasks.mutual_information_matrix(density, asked, known or None, rows)
        return as_frames(found, schema, stderr)

    def independence_test(
        self, x: Any, y: Any, given: Any = None, *, data: Any = None, **options: Any
    ) -> IndependenceResult:
        """Test whether columns are independent, perhaps given others, at the rows of `data`.

        Without `data`, at the rows that were fitted. See `marginals.queries.independence_test` for
        the test and its options (`q`, `ties`, `incomplete`, `seed`).
        """
        tester = self.independence_tester(data=data, **options)
        return tester.independence_test(x, y, given)

    def independence_tester(self, *, data: Any = None, **options: Any) -> IndependenceTester:
        """Return what makes many tests of independence at the same rows, each transform once.

        Without `data`, at the rows that were fitted. Options are those of `independence_test`.
        """
        density, schema = self._parts()
        rows = self._fitted_rows() if data is None else encode(schema, data).evidence
        if rows is None:
            raise ValueError(
                "Expected `data`, rows to test on: a model that was loaded from a file, or a view "
                "of one, does not hold those it was fitted to."
            )
        return IndependenceTester(schema, [(density, rows)], **options)

    def _rows(self, data: Any, samples: int, random_state: Any) -> Evidence:
        """Return rows of data, or draws, as cells: integers and rounded values have a mass."""
        _, schema = self._parts()
        frame = self._drawn(samples, random_state) if data is None else data
        return encode(schema, frame).evidence

    def _drawn(self, samples: int, random_state: Any) -> pd.DataFrame:
        if samples < 1:
            raise ValueError(f"Expected `samples` to be at least 1; got {samples}.")
        density, schema = self._parts()
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        device = next(density.parameters()).device
        generator = torch.Generator(device).manual_seed(seed)
        with torch.no_grad():
            rows = density.sample(samples, generator=generator)
        return decode(schema, rows)


def as_frames(found: InformationMatrix, schema: Schema, stderr: bool) -> Any:
    """Return a matrix as a frame with the columns' names, and a second one of its errors."""
    names = [schema.names[i] for i in found.columns]
    values, errors = (
        pd.DataFrame(part.cpu().numpy(), index=names, columns=names)
        for part in (found.values, found.stderrs)
    )
    return (values, errors) if stderr else values
