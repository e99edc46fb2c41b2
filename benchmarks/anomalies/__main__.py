"""Run with `python -m benchmarks.anomalies`."""

from benchmarks.anomalies.run import main

if __name__ == "__main__":
    main()
