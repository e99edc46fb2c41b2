"""The tables: rows without gaps, whose cells can be hidden and known all the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

MOST_ROWS = 1000


class MissingTableError(Exception):
    """A table cannot be read here; the message says what it needs."""


def load(name: str, folder: Path | None, rows: int = MOST_ROWS) -> pd.DataFrame:
    """Return a table: complete rows, at most `rows` of them drawn at random.

    Numbers are numbers, categories are strings.
    """
    if name not in TABLES:
        raise ValueError(f"Expected `name` to be one of {sorted(TABLES)}; got {name!r}.")
    frame = TABLES[name](folder).dropna()
    if len(frame) > rows:
        frame = frame.sample(rows, random_state=0)
    frame = frame.reset_index(drop=True)
    words = {c: str for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c].dtype)}
    frame = frame.astype(words).astype(dict.fromkeys(words, object))
    return frame.set_axis([str(c) for c in frame.columns], axis=1)


def numeric(frame: pd.DataFrame) -> list[str]:
    """Return the names of the columns of numbers; the others are categories."""
    return [c for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c].dtype)]


def _file(folder: Path | None, *parts: str) -> Path:
    path = None if folder is None else folder.joinpath(*parts)
    if path is None or not path.exists():
        raise MissingTableError(
            f"Expected the file {'/'.join(parts)} in the folder of data sets; it is not there. "
            "Give the folder with --data or in the environment variable MARGINALS_DATA."
        )
    return path


def _csv(*parts: str, drop: tuple[str, ...] = (), **options: Any) -> Callable[..., pd.DataFrame]:
    def read(folder: Path | None) -> pd.DataFrame:
        return pd.read_csv(_file(folder, *parts), **options).drop(columns=list(drop))

    return read


def _named(read: Callable[..., pd.DataFrame], names: list[str]) -> Callable[..., pd.DataFrame]:
    return lambda folder: read(folder).set_axis(names, axis=1)


def _words(read: Callable[..., pd.DataFrame], *columns: str) -> Callable[..., pd.DataFrame]:
    """Turn classes that are written as numbers into strings."""
    return lambda folder: read(folder).astype(dict.fromkeys(columns, str))


def _concrete(folder: Path | None) -> pd.DataFrame:
    path = _file(folder, "imputation", "concrete_compression_Concrete_Data.xls")
    try:
        frame = pd.read_excel(path)
    except ImportError as cause:
        raise MissingTableError(f"{path.name} needs the package xlrd: {cause}") from None
    names = ["cement", "slag", "ash", "water", "plasticizer", "coarse", "fine", "age", "strength"]
    return frame.set_axis(names, axis=1)


def _breast_cancer(_: Path | None) -> pd.DataFrame:
    frame = datasets.load_breast_cancer(as_frame=True).frame
    keep = [c for c in frame.columns if c.startswith("mean") or c == "target"]
    return frame[keep].astype({"target": str})


def _diabetes(_: Path | None) -> pd.DataFrame:
    frame = datasets.load_diabetes(as_frame=True, scaled=False).frame
    return frame.astype({"sex": str})


def _sachs(folder: Path | None) -> pd.DataFrame:
    with np.load(_file(folder, "density", "sachs.npz")) as parts:
        return pd.DataFrame(parts["train"].astype(np.float64))


def _outliers(name: str) -> Callable[[Path | None], pd.DataFrame]:
    def read(folder: Path | None) -> pd.DataFrame:
        with np.load(_file(folder, "adbench", f"{name}.npz")) as parts:
            return pd.DataFrame(parts["X"].astype(np.float64))

    return read


_UCI = "imputation"
_AIRFOIL = ["frequency", "angle", "chord", "velocity", "thickness", "level"]
_BANKNOTE = ["variance", "skewness", "curtosis", "entropy", "genuine"]
_BLOOD = ["recency", "frequency", "volume", "time", "donated"]
_YEAST = ["mcg", "gvh", "alm", "mit", "erl", "pox", "vac", "nuc", "site"]

MEASURED: dict[str, Callable[[Path | None], pd.DataFrame]] = {
    "airfoil": _named(
        _csv(_UCI, "airfoil_self_noise_airfoil_self_noise.dat", sep=r"\s+", header=None), _AIRFOIL
    ),
    "banknote": _words(
        _named(_csv(_UCI, "banknote_data_banknote_authentication.txt", header=None), _BANKNOTE),
        "genuine",
    ),
    "transfusion": _words(
        _named(_csv(_UCI, "blood_transfusion_transfusion.data"), _BLOOD), "donated"
    ),
    "concrete": _concrete,
    "wine-red": _csv(_UCI, "wine_quality_red_winequality-red.csv", sep=";"),
    "yeast": lambda folder: _named(
        lambda folder: _csv(_UCI, "yeast_yeast.data", sep=r"\s+", header=None)(folder).iloc[:, 1:],
        _YEAST,
    )(folder),
    "mpg": _csv("tables", "seaborn_mpg.csv", drop=("name",)),
    "penguins": _csv("tables", "seaborn_penguins.csv"),
    "diamonds": _csv("tables", "seaborn_diamonds.csv"),
    "breast-cancer": _breast_cancer,
}
# Looked at while the defaults were being changed; none of their figures is reported.
DEVELOPMENT: dict[str, Callable[[Path | None], pd.DataFrame]] = {
    "diabetes": _diabetes,
    "sachs": _sachs,
    "titanic": _csv(
        "tables",
        "seaborn_titanic.csv",
        drop=("class", "who", "adult_male", "deck", "embark_town", "alive", "alone"),
    ),
    "bfi": _csv("tables", "psych_bfi.csv", drop=("rownames",)),
    "cardio": _outliers("6_cardio"),
    "page-blocks": _outliers("27_PageBlocks"),
    "pima": _csv("tables", "MASS_Pima.tr2.csv", drop=("rownames",)),
}
TABLES = {**MEASURED, **DEVELOPMENT}
