"""Run with `python -m benchmarks.independence`."""

import sys

from benchmarks.independence.run import main

if __name__ == "__main__":
    main(sys.argv[1:])
