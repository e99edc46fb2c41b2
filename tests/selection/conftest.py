"""Searches whose models are trained for a few steps instead of seconds."""

from typing import Any

import pytest

from marginals.selection.recipes import Recipe, first_recipes


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def brief(*arguments: Any) -> list[Recipe]:
        found = first_recipes(*arguments)
        return [r.fitting(max_steps=min(5, r.fit["max_steps"])) for r in found]

    monkeypatch.setattr("marginals.selection.search.first_recipes", brief)
