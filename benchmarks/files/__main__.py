"""`python -m benchmarks.files`."""

from benchmarks.files.run import main

if __name__ == "__main__":
    main()
