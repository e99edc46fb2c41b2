"""Run with `python -m benchmarks.synthesis`."""

from benchmarks.synthesis.run import main

if __name__ == "__main__":
    main()
