"""Run with `python -m benchmarks.independence`."""

import sys

from benchmarks.independence import report, run

if __name__ == "__main__":
    if sys.argv[1:2] == ["report"]:
        report.main(sys.argv[2:])
    else:
        run.main(sys.argv[1:])
