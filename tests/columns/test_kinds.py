"""Kinds are checked where they are made."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginals.columns import Categorical, Continuous, Discrete, Integer

DAY = pd.Timedelta("1D")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Continuous(), "Continuous()"),
        (Continuous(0, 1.5), "Continuous(lower=0, upper=1.5)"),
        (Continuous(lower=0, atoms=[0]), "Continuous(lower=0, atoms=(0,))"),
        (Continuous(resolution=np.float64(0.5)), "Continuous(resolution=0.5)"),
        (Integer(lower=np.int64(3)), "Integer(lower=3)"),
        (Integer(upper=4.0), "Integer(upper=4)"),
        (Integer(0, 99, [40, 20]), "Integer(lower=0, upper=99, atoms=(20, 40))"),
        (Continuous(resolution=0.5, atoms=(0.5,)), "Continuous(resolution=0.5, atoms=(0.5,))"),
        (Discrete(), "Discrete()"),
        (Discrete(np.array([60, 36])), "Discrete(values=(36, 60))"),
        (Categorical(), "Categorical()"),
        (Categorical(np.array([1, 2])), "Categorical(categories=(1, 2))"),
    ],
)
def test_repr(kind: Any, text: str) -> None:
    assert repr(kind) == text


def test_values_are_plain() -> None:
    assert type(Continuous(lower=np.float32(0.5)).lower) is float
    assert type(Integer(lower=np.uint8(3)).lower) is int
    assert type(Categorical([np.str_("a")]).categories[0]) is str
    assert Continuous(lower=datetime.datetime(2020, 1, 1)).lower == pd.Timestamp("2020")
    assert Continuous(lower=np.timedelta64(1, "D")).lower == DAY
    assert Continuous(atoms=(3, 1.0)).atoms == (1, 3)


def test_frozen_and_hashable() -> None:
    assert len({Continuous(lower=0), Continuous(lower=0.0), Integer(0), Categorical(["a"])}) == 3
    with pytest.raises(AttributeError):
        Integer().lower = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: Continuous(lower=2, upper=1), ValueError, "`lower` to be less.*got 2 and 1. Swap"),
        (lambda: Continuous(lower=1, upper=1), ValueError, "`lower` to be less than `upper`"),
        (lambda: Continuous(lower=np.nan), ValueError, "`lower` to be finite; got nan. Leave"),
        (lambda: Continuous(upper=np.inf), ValueError, "`upper` to be finite; got inf"),
        (lambda: Continuous(upper=10**400), ValueError, "`upper` to be finite"),
        (lambda: Continuous(lower=pd.NaT), ValueError, "`lower` to be finite"),
        (lambda: Continuous(-1.7e308, 1.7e308), ValueError, "`upper - lower` to be a finite"),
        (lambda: Continuous(lower="0"), TypeError, "`lower` to be a number.*got '0'. Convert"),
        (lambda: Continuous(lower=True), TypeError, "`lower` to be a number"),
        (lambda: Continuous(lower=0, upper=pd.Timestamp(0)), TypeError, "of one kind.*Give both"),
        (lambda: Continuous(resolution=0), ValueError, "`resolution` to be positive; got 0. Leave"),
        (lambda: Continuous(resolution=-DAY), ValueError, "`resolution` to be positive"),
        (lambda: Continuous(resolution=pd.Timestamp(0)), TypeError, "`resolution`.*Use pd.Timede"),
        (lambda: Continuous(atoms=0), TypeError, r"tuple of values; got 0.*atoms=\(0,\)"),
        (lambda: Continuous(atoms=(0, 0.0)), ValueError, "`atoms` to be distinct"),
        (lambda: Continuous(atoms=(None,)), ValueError, "`atoms` to be values"),
        (lambda: Continuous(lower=0, atoms=(DAY,)), TypeError, "`atoms` and bounds to be of one"),
        (lambda: Continuous(atoms=(0, DAY)), TypeError, "`atoms` to be of one kind"),
        (lambda: Continuous(lower=0, atoms=(-1,)), ValueError, r"lie in \[0, None\]; got -1. Wid"),
        (lambda: Continuous(upper=0, atoms=(1,)), ValueError, r"lie in \[None, 0\]; got 1"),
        (lambda: Integer(lower=0.5), ValueError, "whole number; got 0.5. Round it"),
        (lambda: Integer(lower=3, upper=2), ValueError, "Swap them"),
        (lambda: Integer(lower=pd.Timestamp(0)), ValueError, "to be a whole number"),
        (lambda: Integer(upper=False), TypeError, "`upper` to be a number"),
        (lambda: Integer(atoms=(0.5,)), ValueError, "`atoms` of an integer column.*whole"),
        (lambda: Integer(0, 9, atoms=(10,)), ValueError, r"lie in \[0, 9\]; got 10"),
        (lambda: Discrete(3), TypeError, "`values` to be a list of numbers.*got 3. Put it"),
        (lambda: Discrete([]), ValueError, "`values` to hold values; got"),
        (lambda: Discrete([1, 1.0]), ValueError, "`values` to be distinct"),
        (lambda: Discrete([1, DAY]), TypeError, "`values` to be of one kind"),
        (lambda: Discrete(["a"]), TypeError, "`values` to be a number"),
        (lambda: Categorical("abc"), TypeError, "`categories` to be a list.*got 'abc'. Put it"),
        (lambda: Categorical(3), TypeError, "`categories` to be a list"),
        (lambda: Categorical([]), ValueError, "`categories` to hold a value; got none"),
        (lambda: Categorical(["a", "b", "a"]), ValueError, "distinct; got 'a' twice"),
        (lambda: Categorical(["a", None]), ValueError, "a missing one in"),
        (lambda: Categorical(["a", np.nan]), ValueError, "a missing one"),
        (lambda: Categorical([{}]), TypeError, "`categories` to hold plain values.*got dict"),
    ],
)
def test_errors(make: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()
