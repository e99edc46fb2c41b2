"""Benchmarks and the paper's experiments, on one harness: see README.md."""
