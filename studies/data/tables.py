"""Mixed tables of numbers and categories, from files and from scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from studies.harness.available import Unavailable, check_choice
from studies.harness.study import Context

Reader = Callable[[Context], pd.DataFrame]


def read_table(name: str, context: Context) -> pd.DataFrame:
    """Read a table as it is, without row names and columns that repeat others."""
    check_choice("`tables`", name, TABLES)
    return TABLES[name](context)


def complete_table(name: str, context: Context, rows: int) -> pd.DataFrame:
    """Return at most so many complete rows, drawn at random; categories are strings."""
    frame = read_table(name, context).dropna()
    if len(frame) > rows:
        frame = frame.sample(rows, random_state=0)
    frame = frame.reset_index(drop=True)
    words = {c: str for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c].dtype)}
    frame = frame.astype(words).astype(dict.fromkeys(words, object))
    return frame.set_axis([str(c) for c in frame.columns], axis=1)


def numeric(frame: pd.DataFrame) -> list[str]:
    """Return the names of the numeric columns; the others are categories."""
    return [c for c in frame.columns if pd.api.types.is_numeric_dtype(frame[c].dtype)]


def _csv(
    *parts: str,
    drop: tuple[str, ...] = (),
    names: str | None = None,
    words: tuple[str, ...] = (),
    **options: Any,
) -> Reader:
    """Read a text file; `words` are classes that are written as numbers."""

    def read(context: Context) -> pd.DataFrame:
        frame = pd.read_csv(context.file(*parts), **options).drop(columns=list(drop))
        frame = frame if names is None else frame.set_axis(names.split(), axis=1)
        return frame.astype(dict.fromkeys(words, str))

    return read


def _parquet(*parts: str) -> Reader:
    def read(context: Context) -> pd.DataFrame:
        try:
            return pd.read_parquet(context.file(*parts))
        except ImportError as cause:
            raise Unavailable(f"{parts[-1]} needs the package pyarrow: {cause}") from None

    return read


def _concrete(context: Context) -> pd.DataFrame:
    path = context.file("imputation", "concrete_compression_Concrete_Data.xls")
    try:
        frame = pd.read_excel(path)
    except ImportError as cause:
        raise Unavailable(f"{path.name} needs the package xlrd: {cause}") from None
    names = "cement slag ash water plasticizer coarse fine age strength"
    return frame.set_axis(names.split(), axis=1)


def _breast_cancer(_: Context) -> pd.DataFrame:
    frame = datasets.load_breast_cancer(as_frame=True).frame
    keep = [c for c in frame.columns if c.startswith("mean") or c == "target"]
    return frame[keep].astype({"target": str})


def _diabetes(_: Context) -> pd.DataFrame:
    return datasets.load_diabetes(as_frame=True, scaled=False).frame.astype({"sex": str})


def _array(folder: str, name: str, part: str) -> Reader:
    def read(context: Context) -> pd.DataFrame:
        with np.load(context.file(folder, f"{name}.npz")) as parts:
            return pd.DataFrame(parts[part].astype(np.float64))

    return read


_SPACED = {"sep": r"\s+", "header": None}
TABLES: dict[str, Reader] = {
    "airfoil": _csv(
        *("imputation", "airfoil_self_noise_airfoil_self_noise.dat"),
        names="frequency angle chord velocity thickness level",
        **_SPACED,
    ),
    "banknote": _csv(
        *("imputation", "banknote_data_banknote_authentication.txt"),
        names="variance skewness curtosis entropy genuine",
        words=("genuine",),
        header=None,
    ),
    "transfusion": _csv(
        *("imputation", "blood_transfusion_transfusion.data"),
        names="recency frequency volume time donated",
        words=("donated",),
    ),
    "concrete": _concrete,
    "wine-red": _csv("imputation", "wine_quality_red_winequality-red.csv", sep=";"),
    "yeast": _csv(
        *("imputation", "yeast_yeast.data"),
        names="mcg gvh alm mit erl pox vac nuc site",
        usecols=range(1, 10),
        **_SPACED,
    ),
    "mpg": _csv("tables", "seaborn_mpg.csv", drop=("name",)),
    "penguins": _csv("tables", "seaborn_penguins.csv"),
    "diamonds": _csv("tables", "seaborn_diamonds.csv"),
    "adult": _parquet("synthesis", "adult.parquet"),
    "shoppers": _parquet("synthesis", "shoppers.parquet"),
    "breast-cancer": _breast_cancer,
    "diabetes": _diabetes,
    "sachs": _array("density", "sachs", "train"),
    "titanic": _csv(
        *("tables", "seaborn_titanic.csv"),
        drop=("class", "who", "adult_male", "deck", "embark_town", "alive", "alone"),
    ),
    "bfi": _csv("tables", "psych_bfi.csv", drop=("rownames",)),
    "cardio": _array("adbench", "6_cardio", "X"),
    "page-blocks": _array("adbench", "27_PageBlocks", "X"),
    "iris": lambda _: datasets.load_iris(as_frame=True).data,
    "wine": lambda _: datasets.load_wine(as_frame=True).data,
    "airquality": _csv("tables", "datasets_airquality.csv", drop=("rownames",)),
    **{name: _array("density", name, "train") for name in ("gas", "hepmass", "protein", "power")},
    "pima": _csv("tables", "MASS_Pima.tr2.csv", drop=("rownames",)),
}
