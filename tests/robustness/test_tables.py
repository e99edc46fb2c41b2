"""Any table is fitted and answers by the laws, or is refused in our own words."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginals import MDMA
from tests.examples import examples
from tests.robustness.questions import Refused, answer, ask_all
from tests.robustness.tables import SOUND, UNSOUND, frames, make_frame

# Models of few steps find some rows of wild tables far out.
pytestmark = pytest.mark.filterwarnings("ignore::marginals.OutsideDataWarning")


def fitted(frame: pd.DataFrame, width: int, steps: int) -> MDMA:
    return answer(MDMA(width=width, max_steps=steps, random_state=0, progress=False).fit, frame)


def check(frame: pd.DataFrame, width: int, steps: int, seed: int) -> None:
    try:
        model = fitted(frame, width, steps)
    except Refused:
        if is_of_all_scales(frame):
            return
        raise
    ask_all(model, frame, np.random.default_rng(seed))


def is_of_all_scales(frame: pd.DataFrame) -> bool:
    """Say whether a column has numbers so far apart that float32 does not hold both."""
    for name in frame.select_dtypes("float"):
        sizes = frame[name].abs().replace([0, np.inf], np.nan).dropna()
        if len(sizes) and sizes.max() / 1e30 > sizes.min():
            return True
    return False


SETTINGS = (st.integers(2, 4), st.integers(0, 3), st.integers(0, 2**32))


@pytest.mark.slow
@examples(60)
@given(frames(1, 2), *SETTINGS)
def test_narrow_tables(frame: pd.DataFrame, width: int, steps: int, seed: int) -> None:
    check(frame, width, steps, seed)


@pytest.mark.slow
@examples(30)
@given(frames(3, 6), *SETTINGS)
def test_wide_tables(frame: pd.DataFrame, width: int, steps: int, seed: int) -> None:
    check(frame, width, steps, seed)


KINDS = sorted({*SOUND} - {"any scale", "odd floats"})


@pytest.mark.parametrize("kinds", [*zip(KINDS[::2], KINDS[1::2], strict=True)], ids=str)
def test_every_kind_of_column_is_fitted_and_asked(kinds: tuple[str, str]) -> None:
    frame = make_frame(list(kinds), 12, 3)
    answered, refused = ask_all(fitted(frame, 3, 1), frame, np.random.default_rng(0))
    assert answered >= 8, refused


@pytest.mark.parametrize("kind", sorted(UNSOUND))
def test_other_columns_are_refused(kind: str) -> None:
    with pytest.raises(Refused, match="'c1'"):
        fitted(make_frame(["float64", kind], 9, 0), 3, 1)
