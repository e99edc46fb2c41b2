"""Time the search for a causal graph after one fit: `python -m benchmarks.causal --out FILE`."""

from benchmarks.causal.speed import main

main()
