"""Recipes suit the size of the table."""

import pytest

from marginals.selection.recipes import (
    SECONDS,
    Recipe,
    answer_recipes,
    first_recipes,
    focused_recipes,
    node_recipes,
    single_recipe,
)


@pytest.mark.parametrize("count", [1, 10, 100, 1500, 5000, 20_000, 10**6])
@pytest.mark.parametrize("gpu", [False, True])
def test_recipes_suit_the_table(count: int, gpu: bool) -> None:
    for effort in ("quick", "fast", "balanced", "best"):
        for coupled in (0, 1, 2, 40):
            found = first_recipes(count, coupled, effort, gpu)
            assert found
            assert all(recipe.build["width"] >= 1 for recipe in found)
            if coupled < 2:
                assert {recipe.build["tensor"] for recipe in found} == {"ht"}
    assert SECONDS["quick"] < SECONDS["fast"] < SECONDS["balanced"] < SECONDS["best"]


def test_variants_differ_in_seed_and_tree() -> None:
    recipe = Recipe({"tensor": "ht", "width": 4}, {"noise": 0.0})
    other = recipe.varied(7)
    assert (other.build["seed"], other.build["tree"], other.fit["seed"]) == (7, "varied", 7)
    assert recipe.build == {"tensor": "ht", "width": 4}
    assert "tree" not in Recipe({"tensor": "copula"}).varied(7).build


def test_a_single_model_grows_with_the_table() -> None:
    small, large = (single_recipe(rows, {}, {}) for rows in (50, 100_000))
    assert small.build["leaves"] == "normal"
    assert small.build["width"] < large.build["width"]
    assert small.fit["noise"] > large.fit["noise"]
    assert small.fit["max_steps"] < large.fit["max_steps"]
    given = single_recipe(50, {"tensor": "copula", "width": 3}, {"noise": 0.0})
    assert given.build == {"tensor": "copula", "width": 3}
    assert given.fit == {"noise": 0.0, "max_steps": 500}


def test_dependent_numbers_next_to_categories_get_full_covariances() -> None:
    for effort in ("fast", "balanced"):
        plain = first_recipes(50_000, 5, effort, gpu=False, mixed=True)
        found = first_recipes(50_000, 5, effort, gpu=False, mixed=True, dependent=True)
        assert [recipe.build["tensor"] for recipe in plain[:2]] == ["ht", "ht"]
        assert [recipe.build["tensor"] for recipe in found[:2]] == ["copula", "ht"]
        assert (found[0].build["init"], found[0].build["rank"]) == ("em", 4)


def test_tables_of_categories_get_components_placed_by_factors() -> None:
    few, some = node_recipes(300, 5), node_recipes(2500, 1)
    assert [recipe.build["width"] for recipe in few] == [30, 60]
    assert [(recipe.build["width"], recipe.build["rank"]) for recipe in some] == [(200, 0)]
    assert all(recipe.fit["max_steps"] == 0 for recipe in few + some)
    assert node_recipes(20_000, 5) == []
    # With sharp numbers nothing else competes: a second member has more factors.
    sharp = node_recipes(2500, 1, sharp=True)
    assert [recipe.build["factors"] for recipe in sharp] == [12, 6]
    # Narrow trees suit few categories in each of many columns.
    survey = first_recipes(2500, 1, "fast", gpu=False, mixed=True)
    assert survey[0].build["width"] < survey[1].build["width"]


def test_weights_of_a_focus_compete() -> None:
    for rows in (500, 5000):
        plain = first_recipes(rows, 5, "fast", gpu=False)
        found = focused_recipes(plain, [2])
        assert {recipe.fit["focus_weight"] for recipe in found} == {1.0, 10.0}
        assert all(recipe.focus == (2,) for recipe in found)
        assert [recipe.build for recipe in found[: len(plain)]] == [r.build for r in plain]


def test_answers_are_averages_of_components_with_all_correlations() -> None:
    plain, focused = answer_recipes(1000, 5, "fast"), answer_recipes(1000, 5, "fast", [2])
    assert len({recipe.build["width"] for recipe in plain}) > 3
    assert len(focused) == 6
    assert len({recipe.build["width"] for recipe in focused}) == 1
    for recipe in plain + focused:
        assert recipe.build["rank"] == 4
    assert all(recipe.focus == (2,) for recipe in focused)
    classes = answer_recipes(1000, 5, "fast", [2], True)
    assert classes[0].build["width"] < focused[0].build["width"]
    assert len(classes) == len(focused)
    assert min(recipe.fit["noise"] for recipe in classes) > focused[0].fit["noise"]
    assert len(answer_recipes(1000, 5, "best")) > len(plain)
    noises = [answer_recipes(1000, 5, "fast", gaps=g)[0].fit["noise"] for g in (0.0, 0.3, 0.9)]
    assert noises == sorted(noises)
    # Wider components for more rows; none for large tables, or without columns to couple.
    assert answer_recipes(100, 5, "fast", [2])[0].build["width"] < focused[0].build["width"]
    for rows, coupled, effort in ((100_000, 5, "fast"), (1000, 1, "fast"), (1000, 5, "quick")):
        assert answer_recipes(rows, coupled, effort) == []  # type: ignore[arg-type]
