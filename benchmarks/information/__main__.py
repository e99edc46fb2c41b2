"""Run with `python -m benchmarks.information`."""

import sys

from benchmarks.information.run import main

if __name__ == "__main__":
    main(sys.argv[1:])
