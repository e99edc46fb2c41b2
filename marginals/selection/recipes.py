"""What the default is made of: recipes by the size of a table, from coarse to fine.

Sizes and noises were chosen on validation rows of six tables; see docs/likelihood.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from marginals.selection.ensemble import Recipe

Effort = Literal["quick", "fast", "balanced", "best"]

# Seconds of training, on a CPU and on a GPU.
SECONDS: dict[str, tuple[float, float]] = {
    "quick": (2.0, 2.0),
    "fast": (15.0, 10.0),
    "balanced": (50.0, 30.0),
    "best": (500.0, 120.0),
}
# Decay of the average of weights: a gain in six of nine comparisons, see docs/likelihood.md.
_AVERAGING = 0.99
# From here on fine structure, as of sensors, is worth many narrow components.
_MANY = 8000
# Rows for each component of a mixture that is found by EM.
_ROWS_EACH = 20
_FEW_COLUMNS = 4


def first_recipes(rows: int, coupled: int, effort: Effort, gpu: bool) -> list[Recipe]:
    """Return recipes that differ as much as they can, the most promising first.

    Args:
        rows: complete rows with as many cells as the table has.
        coupled: the number of columns that copula components can couple.
        effort: of the search.
        gpu: whether wide models are affordable.
    """
    if effort == "quick":
        return _quick_recipes(rows, coupled)
    most = 1000 if gpu else 200
    coarse = 0.05 if rows < 2 * _MANY else 0.01
    fine = 0.003
    common = min(32, 2 * coupled)
    few = _copula(_within(rows // 100, 3, 32), 1, common, coarse)
    many = _copula(_within(rows // 10, 8, most), 1, min(4, coupled), fine)
    tree = _tree("normal", _within(int(1.2 * rows**0.4), 6, 64), coarse)
    wide_tree = _tree("normal", _within(rows // 40, 12, most // 2), fine if rows > _MANY else 0.02)
    neural = _tree("neural", _within(rows // 80, 8, most // 2), 0.0 if rows > 5 * _MANY else 0.03)
    ranked = _copula(_within(rows // 150, 2, 32), 2, min(20, 2 * coupled), 0.02)
    single = _copula(1, min(3, coupled), common, 0.02)
    if coupled < 2:
        recipes = [tree, wide_tree, neural]
    elif rows < 2000:
        # Tables so small may hold columns that are functions of others, which noise would blur.
        sharp = _copula(few.build["width"], 1, common, 0.005)
        recipes = [few, sharp, tree, single, ranked, many, neural]
    elif rows < _MANY:
        recipes = [few, tree, neural, ranked, wide_tree, many]
    else:
        recipes = [many, wide_tree, neural, few, ranked, tree]
    fast = 4 if gpu else 3 if rows < 2000 else 2
    count = {"fast": fast, "balanced": 6 if gpu else 4, "best": len(recipes)}[effort]
    return recipes[:count]


def _quick_recipes(rows: int, coupled: int) -> list[Recipe]:
    """Return Gaussian mixtures of more and more components, found by EM and not trained."""
    if coupled < 2:
        widths = [w for w in (4, 12) if w <= max(4, rows // 20)]
        return [replace(_tree("normal", w, 0.05), fit=_training(0.05, 200)) for w in widths]
    return _gaussian_recipes(rows, coupled, (1, 2, 4, 8, 16))


def _gaussian_recipes(rows: int, coupled: int, widths: Sequence[int]) -> list[Recipe]:
    """Return mixtures of so many Gaussians, those for which there are rows enough.

    Many columns have more correlations than a table tells of: then there are mixtures with few of
    them as well, of one component, and of several without any.
    """
    if coupled < 2:
        return []
    # One factor less than columns holds any correlation; of many, the strongest directions.
    most = min(coupled - 1, 20)
    sizes = [(w, most, "em") for w in widths if w == 1 or rows >= _ROWS_EACH * w]
    if coupled > _FEW_COLUMNS:
        few = [(1, _FEW_COLUMNS - 1, "em"), (8, 0, "em"), (24, 0, "em")]
        tails = [(6, 0, "scales"), (4, most, "scales")]
        sizes += [size for size in few + tails if rows >= _ROWS_EACH * size[0]]
    return [
        Recipe({"tensor": "copula", "width": w, "rank": r, "init": init}, _training(0.0, 0))
        for w, r, init in sizes
    ]


def varied(recipe: Recipe, seed: int) -> Recipe:
    """Return a recipe that starts elsewhere and, with a tree, couples columns otherwise."""
    options = {**recipe.build, "seed": seed}
    if options["tensor"] == "ht":
        options["tree"] = "varied"
    return replace(recipe, build=options, fit={**recipe.fit, "seed": seed})


def _copula(width: int, rank: int, common: int, noise: float) -> Recipe:
    options = {"tensor": "copula", "width": width, "rank": rank, "common": common}
    return Recipe(options, _training(noise))


def _tree(leaves: str, width: int, noise: float) -> Recipe:
    return Recipe({"tensor": "ht", "leaves": leaves, "width": width}, _training(noise))


def _training(noise: float, steps: int = 100_000) -> dict[str, Any]:
    return {"noise": noise, "averaging": _AVERAGING, "max_steps": steps}


def _within(number: int, low: int, high: int) -> int:
    return max(low, min(number, high))
