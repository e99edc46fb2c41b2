"""A few seconds of the search on whatever device there is, to see that it works there.

python -m benchmarks.likelihood.smoke --data DATA
"""

import argparse
import time

from benchmarks.data import data_folder
from benchmarks.likelihood.ours import fit_default
from benchmarks.likelihood.sets import splits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--sets", nargs="+", default=["sachs", "miniboone"])
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    for name in arguments.sets:
        split = splits(name, data_folder(arguments.data))[0]
        started = time.perf_counter()
        fitted = fit_default(
            split, seed=0, device=arguments.device, effort="best", max_seconds=arguments.seconds
        )
        seconds = time.perf_counter() - started
        print(name, f"{seconds:.1f} s, validation {fitted.score(split.val).mean():.3f}")
        for member in fitted.settings["members"]:
            print("   ", {k: round(v, 3) if isinstance(v, float) else v for k, v in member.items()})


if __name__ == "__main__":
    main()
