"""Which models to fit to a table: recipes by its size, from coarse to fine.

Widths and noises were chosen on validation rows of six tables; see docs/likelihood.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

import numpy as np

from marginals.densities.factor_start import PARTS

Effort = Literal["quick", "fast", "balanced", "best"]

# Seconds of training, on a CPU and on a GPU.
SECONDS: dict[str, tuple[float, float]] = {
    "quick": (2.0, 2.0),
    "fast": (15.0, 10.0),
    "balanced": (50.0, 30.0),
    "best": (500.0, 120.0),
}
# Decay of the moving average of weights: better in six of nine comparisons, see docs/likelihood.md.
_AVERAGING = 0.99
# Seconds are few, so steps are large: a high rate that falls to zero over most of them.
_BATCH, _ANNEALING = 1000, 0.6
# Weights of conditionals in focus next to the joint. The strong one is better on most tables; with
# few rows it may overfit.
STRONG_FOCUS, WEAK_FOCUS = 10.0, 1.0
# From this many rows on, fine structure such as that of sensors is worth many narrow components.
MANY_ROWS = 8000
# Smaller tables are fitted by more and smaller members.
FEW_ROWS = 2000
# Rows per component of a mixture fitted by EM.
_ROWS_EACH = 20
_FEW_COLUMNS = 4
# Components times pairs of columns of a mixture that EM fits to tens of thousands of rows in time.
_MOST_PRODUCTS, _MOST_COMPONENTS = 45_000, 800
# With one factor less than columns any correlation is possible; of many columns, so many factors
# hold the strongest directions.
_MOST_FACTORS = 20
# Of Gaussian mixtures by EM, which take a second, and of further ones for small tables.
_SHARP_WIDTHS, _MORE_WIDTHS = (3, 8, 24, 64), (1, 3, 8)
# Of models whose conditionals are averaged: numbers of components, how many have a focus, rows of
# their steps, and how many of each an effort has.
_SIZES = (20, 10, 40, 6, 3, 20)
_FOCUSED, _SMALL_BATCH = 6, 250
# Noise keeps members from being too sure of the classes of rows fitted. How much is best differs by
# table, and their mean is nearly as good.
_CLASS_NOISES = (0.1, 0.2, 0.4)
_TIMES = {"fast": 1, "balanced": 2, "best": 4}


@final
@dataclass(frozen=True)
class Recipe:
    """How to build and train one model.

    Args:
        build: Options of `marginals.build`.
        fit: Settings of `marginals.fit`.
    """

    build: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)

    def building(self, **options: Any) -> "Recipe":
        """Return the recipe with other options of `marginals.build`."""
        return replace(self, build={**self.build, **options})

    def fitting(self, **settings: Any) -> "Recipe":
        """Return the recipe with other settings of `marginals.fit`."""
        return replace(self, fit={**self.fit, **settings})

    @property
    def focus(self) -> tuple[int, ...]:
        """The columns whose conditionals are learned."""
        return tuple(self.fit.get("focus", ()))

    def focused(self, columns: Sequence[int], weight: float = STRONG_FOCUS) -> "Recipe":
        """Return the recipe with columns in focus."""
        return self.fitting(focus=tuple(columns), focus_weight=weight)

    def seeded(self, seed: int) -> "Recipe":
        """Return the recipe with another seed."""
        return self.building(seed=seed).fitting(seed=seed)

    def varied(self, seed: int) -> "Recipe":
        """Return the recipe with another seed and, if it has one, another tree."""
        varied = self.building(tree="varied") if self.build["tensor"] == "ht" else self
        return varied.seeded(seed)


def single_recipe(rows: int, options: Mapping[str, Any], settings: Mapping[str, Any]) -> Recipe:
    """Return the recipe for a single model: what was given, and defaults for the table's size.

    Wide models overfit small tables. The noise is a kernel bandwidth that shrinks with the rows.
    The steps let small tables converge within seconds.
    """
    build: dict[str, Any] = {"width": int(np.clip(1.2 * rows**0.4, 4, 256))}
    if options.get("tensor") != "copula":
        build["leaves"] = "normal"
    noise = float(np.clip(0.5 * rows**-0.25, 0.02, 0.15))
    steps = int(np.clip(rows // 5, 500, 2000))
    return Recipe({**build, **options}, {"noise": noise, "max_steps": steps, **settings})


def first_recipes(
    rows: int,
    coupled: int,
    effort: Effort,
    gpu: bool,
    mixed: bool = False,
    dependent: bool = False,
) -> list[Recipe]:
    """Return recipes as different as possible, the most promising first.

    Args:
        rows: Number of complete rows with as many observed cells as the table.
        coupled: Number of columns that copula components can couple.
        effort: Effort of the search.
        gpu: Whether wide models are affordable.
        mixed: Whether some columns have categories, which copulas leave uncoupled.
        dependent: Whether the coupled columns say much about each other.
    """
    if effort == "quick":
        return _quick_recipes(rows, coupled)
    most = 1000 if gpu else 200
    coarse = 0.05 if rows < 2 * MANY_ROWS else 0.01
    fine = 0.003
    common = min(32, 2 * coupled)
    few = _copula(_within(rows // 100, 3, 32), 1, common, coarse)
    many = _copula(_within(rows // 10, 8, most), 1, min(4, coupled), fine)
    tree = _tree("normal", _within(int(1.2 * rows**0.4), 6, 64), coarse)
    wide_tree = _tree(
        "normal", _within(rows // 40, 12, most // 2), fine if rows > MANY_ROWS else 0.02
    )
    neural = _tree(
        "neural", _within(rows // 80, 8, most // 2), 0.0 if rows > 5 * MANY_ROWS else 0.03
    )
    ranked = _copula(_within(rows // 150, 2, 32), 2, min(20, 2 * coupled), 0.02)
    mixture = _mixture(rows, coupled, most)
    if coupled < 2 and rows < MANY_ROWS:
        # Each of many related codes has few categories: a narrow tree holds what they say.
        narrow = _tree("normal", _within(int(0.25 * rows**0.5), 4, 32), coarse)
        recipes = [narrow, tree, wide_tree, neural]
    elif coupled < 2:
        recipes = [tree, wide_tree, neural]
    elif rows < FEW_ROWS:
        # Few components with all correlations: which number is best differs by table, and their
        # mean is better than any. Equal noise makes them comparable.
        full = [_copula(k, min(coupled - 1, 20), 0, 0.1).building(init="em") for k in (6, 3, 10, 1)]
        # Columns of small tables may be functions of others, which noise would blur.
        sharp = few.fitting(noise=0.005)
        recipes = [full[0], tree, full[1], full[2], few, full[3], sharp, ranked, many, neural]
    elif rows < MANY_ROWS:
        ranks = [few, tree, neural, ranked, wide_tree, many]
        recipes = [tree, few, *ranks[2:]] if mixed else ranks
    elif mixed and dependent and not gpu:
        # Few leaves cannot hold what numbers say about each other; full covariances do.
        recipes = [mixture, tree, many, wide_tree, neural, few, ranked]
    elif mixed and not gpu:
        # Two trees of one size, over different pairs of columns, agree more with a table than a
        # wide one that takes few steps.
        other = tree.building(tree="varied")
        recipes = [tree, other, wide_tree, many, neural, few, ranked]
    elif mixed:
        recipes = [wide_tree, tree, many, mixture, neural, few, ranked]
    elif gpu:
        recipes = [many, mixture, wide_tree, neural, few, ranked, tree]
    else:
        recipes = [mixture, many, wide_tree, neural, few, ranked, tree]
    fast = 4 if gpu or rows < FEW_ROWS else 2
    count = {"fast": fast, "balanced": 6 if gpu else 4, "best": len(recipes)}[effort]
    return recipes[:count]


def answer_recipes(
    rows: int,
    coupled: int,
    effort: Effort,
    focus: Sequence[int] = (),
    classes: bool = False,
    gaps: float = 0.0,
) -> list[Recipe]:
    """Return models whose conditionals are averaged: components with all correlations.

    No held-out score finds their best number, which differs by table; their mean is better than
    any. There are none for tables with little to couple, and for large ones.

    Args:
        rows: Number of complete rows with as many observed cells as the table.
        coupled: Number of columns that copula components can couple.
        effort: Effort of the search.
        focus: Columns whose conditionals are learned; empty for all cells alike.
        classes: Whether all of these have categories, which fewer and smoother components separate.
        gaps: Share of the cells that are missing.
    """
    if coupled < 2 or rows >= MANY_ROWS or effort == "quick":
        return []
    rank, times = min(coupled - 1, _MOST_FACTORS), _TIMES[effort]
    if focus:
        each, noises = (30, _CLASS_NOISES) if classes else (15, (0.05,))
        width, turns = _within(rows // each, 4, 50), _FOCUSED * times // len(noises)
        recipes = [_copula(width, rank, 0, noise).focused(focus) for noise in noises * turns]
    else:
        # Noise widens answers. Little is enough, unless each row says little.
        most, noise = max(1, rows // _ROWS_EACH), min(0.1, 0.025 + 0.15 * gaps)
        recipes = [_copula(min(k, most), rank, 0, noise) for k in _SIZES * times]
    return [r.building(init="em").fitting(batch_size=_SMALL_BATCH) for r in recipes]


def focused_recipes(recipes: Sequence[Recipe], columns: Sequence[int]) -> list[Recipe]:
    """Return recipes with columns in focus, every third with the weak weight, and at least one.

    Their members compete: validation rows say which weight is right.
    """
    strong = [recipe.focused(columns) for recipe in recipes]
    if len(strong) < 3:
        return [*strong, recipes[0].focused(columns, WEAK_FOCUS)]
    weights = [WEAK_FOCUS if i % 3 == 2 else STRONG_FOCUS for i in range(len(recipes))]
    return [recipe.focused(columns, w) for recipe, w in zip(recipes, weights, strict=True)]


def _mixture(rows: int, coupled: int, most: int) -> Recipe:
    """Return many components with all correlations, fitted by EM.

    Their number falls with that of the correlations, which each pass over the rows multiplies.
    """
    pairs = (coupled + 1) * (coupled + 2) // 2
    affordable = min(max(2 * most, _MOST_COMPONENTS), _MOST_PRODUCTS // pairs)
    width = _within(rows // 30, 8, max(100, affordable))
    rank = _within(coupled - 1, 0, _MOST_FACTORS)
    options = {"tensor": "copula", "width": width, "rank": rank, "init": "em"}
    return Recipe(options, _training(0.0, 0))


def sharp_recipes(rows: int, coupled: int) -> list[Recipe]:
    """Return Gaussian mixtures for small tables, and for columns that nearly determine each other.

    EM fits them in a second. Gradients do not find such dependence, and noise blurs it. In small
    tables codes move the numbers; in others many components hold the same, with fewer in all.
    """
    rank = min(coupled - 1, _MOST_FACTORS)
    small = rows < FEW_ROWS
    sizes = (*_SHARP_WIDTHS, *_MORE_WIDTHS) if small else _SHARP_WIDTHS
    widths = [w for w in sizes if rows >= _ROWS_EACH * w] or [1]
    init = "location" if small else "em"
    options = [{"tensor": "copula", "width": w, "rank": rank, "init": init} for w in widths]
    return [Recipe(option, _training(0.0, 0)) for option in options]


def node_recipes(rows: int, coupled: int, sharp: bool = False, flat: bool = False) -> list[Recipe]:
    """Return mixtures over nodes of few factors, for tables with categories that are not large.

    They are fitted by their start, in seconds. Large tables tell more than few factors hold.

    Args:
        rows: Number of complete rows with as many observed cells as the table.
        coupled: Number of columns that copula components can couple.
        sharp: Whether some columns nearly determine each other, so that no other members compete.
        flat: Whether components have copies that together have a flat margin, as of a time.
    """
    if rows >= MANY_ROWS:
        return []
    width, factors = _within(rows // 10, 16, 200), _within(int(rows**0.25), 3, 6)
    sizes = [(width, factors)]
    if flat:  # copies cost as much as components: one member, of more factors, is enough
        sizes = [(PARTS * _within(3 * width // 4, 4, 150), 2 * factors)]
    elif rows < FEW_ROWS:
        sizes.append((2 * width, factors + 1))
    elif sharp:
        sizes.insert(0, (width, 2 * factors))
    rank = _within(coupled - 1, 0, _MOST_FACTORS)
    common = {"tensor": "copula", "rank": rank, "init": "factors"}
    return [
        Recipe({**common, "width": width, "factors": factors}, _training(0.0, 0))
        for width, factors in sizes
    ]


def _quick_recipes(rows: int, coupled: int) -> list[Recipe]:
    """Return Gaussian mixtures fitted by EM and not trained, or small trees if none apply.

    A table with many columns has too few rows for all their correlations: mixtures with few
    factors, and mixtures of several components without any, are then added.
    """
    if coupled < 2:
        widths = [w for w in (4, 12) if w <= max(4, rows // 20)]
        return [_tree("normal", w, 0.05).fitting(max_steps=200) for w in widths]
    most = min(coupled - 1, _MOST_FACTORS)
    sizes = [(width, most, "em") for width in (2, 4, 8, 16)]
    if coupled > _FEW_COLUMNS:
        sizes += [(1, _FEW_COLUMNS - 1, "em"), (8, 0, "em"), (24, 0, "em")]
        sizes += [(6, 0, "scales"), (4, most, "scales")]
    sizes = [(1, most, "em"), *(size for size in sizes if rows >= _ROWS_EACH * size[0])]
    return [
        Recipe({"tensor": "copula", "width": w, "rank": r, "init": init}, _training(0.0, 0))
        for w, r, init in sizes
    ]


def _copula(width: int, rank: int, common: int, noise: float) -> Recipe:
    options = {"tensor": "copula", "width": width, "rank": rank, "common": common}
    return Recipe(options, _training(noise, rate=0.03))


def _tree(leaves: str, width: int, noise: float) -> Recipe:
    rate = 0.1 if leaves == "normal" else 0.03
    return Recipe({"tensor": "ht", "leaves": leaves, "width": width}, _training(noise, rate=rate))


def _training(noise: float, steps: int = 100_000, rate: float = 0.01) -> dict[str, Any]:
    return {
        **{"noise": noise, "averaging": _AVERAGING, "max_steps": steps},
        **{"learning_rate": rate, "batch_size": _BATCH, "annealing": _ANNEALING},
    }


def _within(number: int, low: int, high: int) -> int:
    return max(low, min(number, high))
