"""How many random examples a property gets.

`make test` draws a third of them, at least a dozen. With THOROUGH=1 in the environment it draws
all: run that after a change to the parser, the columns or the cells.
"""

import os
from typing import Any

from hypothesis import settings

FEWEST = 12
THOROUGH = os.environ.get("THOROUGH", "") not in ("", "0")


def share(count: int) -> int:
    """Return how many of `count` examples to draw."""
    return count if THOROUGH else max(min(count, FEWEST), count // 3)


def examples(count: int, **options: Any) -> settings:
    """Return the settings of a property that has `count` examples in a thorough run."""
    return settings(max_examples=share(count), **options)
