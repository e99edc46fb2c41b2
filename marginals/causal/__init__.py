"""Causal graphs from independence tests, by causal-learn: pip install "marginals[causal]"."""

from marginals.causal.adapters import PgmpyTest, lagged, register_causal_learn, tigramite_test
from marginals.causal.graph import CausalGraph, causal_graph
from marginals.causal.shd import adjacency, shd

__all__ = [
    "CausalGraph",
    "PgmpyTest",
    "adjacency",
    "causal_graph",
    "lagged",
    "register_causal_learn",
    "shd",
    "tigramite_test",
]
