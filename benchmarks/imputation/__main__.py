"""`python -m benchmarks.imputation`."""

from benchmarks.imputation.run import main

if __name__ == "__main__":
    main()
