"""`python -m benchmarks.likelihood`."""

from benchmarks.likelihood.run import main

if __name__ == "__main__":
    main()
