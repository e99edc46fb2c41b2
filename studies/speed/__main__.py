"""`python -m studies.speed JOB`: measure one job in this process, which is fresh."""

import sys

from studies.speed.run import main

if __name__ == "__main__":
    main(sys.argv[1])
