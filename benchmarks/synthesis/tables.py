"""The mixed tables, cut into rows to fit and rows to hold out."""

from pathlib import Path

import numpy as np
import pandas as pd

MOST_ROWS = 5000
HELD_OUT = 0.3
FILES = {
    **{"penguins": "seaborn_penguins", "titanic": "seaborn_titanic", "mpg": "seaborn_mpg"},
    **{"diamonds": "seaborn_diamonds", "bfi": "psych_bfi"},
}
# Names of rows, and columns that repeat others in other words.
LEFT_OUT = {
    "titanic": ["class", "who", "adult_male", "deck", "embark_town", "alive", "alone"],
    "mpg": ["name"],
    "bfi": ["rownames"],
}


def load(folder: Path, name: str) -> pd.DataFrame:
    """Load a table without the columns that are left out."""
    path = folder / "tables" / f"{FILES[name]}.csv"
    if not path.exists():
        raise SystemExit(f"Expected the table {path}; it is not there.")
    return pd.read_csv(path).drop(columns=LEFT_OUT.get(name, []))


def cut(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Take at most 5,000 rows; return 70 % of them to fit, and the rest."""
    order = np.random.default_rng(seed).permutation(len(frame))[:MOST_ROWS]
    held = round(HELD_OUT * len(order))
    fitted, unseen = order[held:], order[:held]
    return frame.iloc[fitted].reset_index(drop=True), frame.iloc[unseen].reset_index(drop=True)


def with_gaps(drawn: pd.DataFrame, real: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Blank cells as in real rows taken at random, whatever the values."""
    gone = real.isna().to_numpy()
    chosen = np.random.default_rng(seed).integers(len(real), size=len(drawn))
    return drawn.mask(pd.DataFrame(gone[chosen], index=drawn.index, columns=drawn.columns))
