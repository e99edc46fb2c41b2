"""`python -m benchmarks.prediction`."""

from benchmarks.prediction.run import main

if __name__ == "__main__":
    main()
