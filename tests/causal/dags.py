"""A linear Gaussian DAG, its exact density, and a tester of it that has column names."""

from typing import Any

import pandas as pd
import torch

from marginals.queries import IndependenceResult, Uniforms, independence_test
from tests.queries.oracle import Gaussian

# a -> c <- b, c -> d, d -> e: its CPDAG is a -> c <- b, c -> d -> e, all of it directed.
COLLIDER = {("a", "c"): 0.8, ("b", "c"): -0.9, ("c", "d"): 0.9, ("d", "e"): 0.7}
# a -> b -> c: nothing tells the directions.
CHAIN = {("a", "b"): 0.9, ("b", "c"): 0.8}


def density_of(edges: dict[tuple[str, str], float], names: list[str]) -> Gaussian:
    """X = B^T X + e, so that the covariance is (I - B)^-T (I - B)^-1."""
    weights = torch.zeros(len(names), len(names))
    for (a, b), weight in edges.items():
        weights[names.index(a), names.index(b)] = weight
    mixing = torch.linalg.inv(torch.eye(len(names)) - weights)
    return Gaussian(mixing.T @ mixing)


class Oracle:
    """Exact tests of a Gaussian at its own draws, by name."""

    def __init__(self, edges: dict[tuple[str, str], float], rows: int = 4000) -> None:
        self.names = sorted({name for edge in edges for name in edge})
        self.density = density_of(edges, self.names)
        generator = torch.Generator().manual_seed(3)
        self.rows = self.density.sample(rows, generator=generator)
        self.uniforms = Uniforms([(self.density, self.rows)])
        self.prepared: list[tuple[list[Any], list[Any] | None]] = []

    @property
    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows.numpy(), columns=self.names)

    def independence_test(self, x: Any, y: Any, given: Any = None) -> IndependenceResult:
        sides = [self.names.index(x), self.names.index(y), self._at(given or [])]
        return independence_test(self.uniforms, *sides)  # type: ignore[arg-type]

    def prepare(self, columns: list[Any], given: list[Any] | None) -> None:
        self.prepared.append((columns, given))
        self.uniforms.ends(self._at(columns), self._at(given or []))

    def _at(self, names: list[Any]) -> list[int]:
        return [self.names.index(name) for name in names]
