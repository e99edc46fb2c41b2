"""`python -m benchmarks.density`."""

from benchmarks.density.run import main

if __name__ == "__main__":
    main()
