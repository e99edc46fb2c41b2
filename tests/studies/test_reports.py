"""Metrics by hand, and tables of made-up records."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from studies import anomalies, appendix, imputation, independence, missing, prediction, toy
from studies.causal import graphs
from studies.data.density import FOLDS
from studies.harness.study import find
from studies.imputation import compared, fair_crps
from studies.information import gaussian, tasks, training
from studies.likelihood import paper_table, scoreboard
from studies.models.imputers import Filled, predictive_interval
from studies.prediction import of_classes, of_numbers, pinball_crps

Record = dict[str, Any]


def tables(name: str, records: list[Record], paper: Record | None = None) -> str:
    return find(name).tables(records, paper or {})


# Metrics ----------------------------------------------------------------------------------------


def test_the_crps_of_few_draws_has_no_bias() -> None:
    rng = np.random.default_rng(0)
    truth = np.full(40_000, 0.7)
    # Of a standard normal: y (2 F(y) - 1) + 2 f(y) - 1 / sqrt(pi).
    exact = 0.7 * math.erf(0.7 / math.sqrt(2)) + math.sqrt(2 / math.pi) * math.exp(-0.245)
    exact -= 1 / math.sqrt(math.pi)
    for count in (2, 20):
        found = fair_crps(rng.normal(size=(count, len(truth))), truth)
        assert found.mean() == pytest.approx(exact, abs=5 * found.std() / 200)
    pairs = np.abs(np.array([1.0, 4.0, 6.0])[:, None] - np.array([1.0, 4.0, 6.0])).sum() / 6
    by_hand = np.abs(np.array([1.0, 4.0, 6.0]) - 3.0).mean() - pairs / 2
    assert fair_crps(np.array([[1.0], [4.0], [6.0]]), np.array([3.0]))[0] == pytest.approx(by_hand)
    assert fair_crps(np.array([[5.0]]), np.array([3.0]))[0] == 2.0


def test_intervals_of_few_draws_hold_the_share_of_further_ones() -> None:
    draws = np.random.default_rng(0).normal(size=(21, 20_000))
    low, high = predictive_interval(draws[:20], 0.9)
    inside = ((low <= draws[20]) & (draws[20] <= high)).mean()
    assert inside == pytest.approx(0.9, abs=5 * math.sqrt(0.09 / 20_000))


def test_figures_of_filled_cells_by_hand() -> None:
    truth = pd.DataFrame({"x": [0.0, 2.0, 4.0, 6.0], "word": list("abab")})
    mask = np.array([[True, True], [False, True], [True, False], [False, False]])
    point = truth.assign(x=[1.0, 2.0, 4.0, 6.0], word=list("aaab"))
    spread = math.sqrt(5)
    found = compared(truth, mask, Filled(point, [], truth[["x"]], truth[["x"]] + 1), 0.9)
    assert found["rmse"] == pytest.approx(math.sqrt(1 / 2) / spread)
    assert found["crps"] == pytest.approx(0.5 / spread)  # a point: the mean absolute error
    assert (found["coverage"], found["accuracy"], found["cells"]) == (1.0, 0.5, 2)
    assert compared(truth, np.zeros_like(mask), Filled(point), 0.9)["accuracy"] is None
    with pytest.raises(ValueError, match="Expected all cells of 'x' to be filled"):
        compared(truth, mask, Filled(point.assign(x=math.nan)), 0.9)


def test_scores_of_predictions_by_hand() -> None:
    quantiles, levels = np.array([[0.0, 1.0, 2.0]]), np.array([0.1, 0.5, 0.9])
    loss = 0.1 * 1.5 + 0.5 * 0.5 + 0.1 * 0.5
    assert pinball_crps(quantiles, levels, np.array([1.5])) == pytest.approx(2 * loss / 3)
    found = of_numbers(np.repeat(quantiles, 2, 0), np.ones(2), levels, np.array([1.0, 3.0]))
    assert (found["coverage"], found["width"], found["rmse"]) == (0.5, 2.0, math.sqrt(2))
    shares = np.array([[0.25, 0.75], [0.5, 0.5]])
    classes = of_classes(shares, np.array(["a", "b"]), ["b", "a"])
    assert classes["log_loss"] == pytest.approx(-math.log(0.75 * 0.5) / 2)
    assert classes["accuracy"] == 1.0


def test_the_floor_of_the_authors() -> None:
    floor = paper_table.FLOOR
    found = paper_table.floored(np.array([-1.0, -1000.0, -np.inf, np.nan]))
    assert found == pytest.approx((-1 + 3 * floor) / 4)


def test_distances_of_graphs_by_convention() -> None:
    import networkx as nx

    found = nx.DiGraph([("b", "a"), ("a", "c"), ("c", "a")])
    told = graphs.distances(found, "abc", [("a", "b"), ("a", "c")])
    assert told == {"directed": 3, "usual": 2, "skeleton": 0}
    assert graphs.empty([["a", "b"], ["a", "c"]]) == {"directed": 2, "usual": 2, "skeleton": 2}


def test_axes_of_the_appendix() -> None:
    minutes = np.repeat(np.arange(1440) / 400 - 1.8, 2)
    assert appendix._midnight(minutes) == pytest.approx((-1.8, 60 / 400))
    low, high = appendix.ends_of(np.append(np.linspace(0, 1, 1000), 1e6))
    assert -0.1 < low < 0.05
    assert 0.95 < high < 1.1


# Tables of likelihood ---------------------------------------------------------------------------


def fitted(name: str = "gas", model: str = "gmm", seed: int = 0, **figures: Any) -> Record:
    """A record of the scoreboard, or of the paper's table."""
    return {
        **{"set": name, "model": model, "seed": seed, "fold": None, "partial": False},
        **{"test_mean": 1.0, "test_median": 1.0, "test_min": -9.0, "test_rows": 10},
        **{"rows_minus_inf": 0, "rows_undefined": 0, "val_mean": 1.0, "fit_s": 1.0},
        **{"score_s": 0.1, "sample_s": 0.1, "settings": {}, "device": "cpu"},
        **{"test_floored": -29.5, "train_rows": 4123, "partial_rows": 5339},
        **{"published_split": False, "fitted": {"steps": 9}},
        **figures,
    }


def test_the_scoreboard_averages_rows_then_seeds() -> None:
    folded = [
        fitted("iris", seed=seed, fold=fold, test_mean=mean, test_rows=rows)
        for seed, fold, mean, rows in [(0, 0, 1.0, 30), (0, 1, 2.0, 10), (1, 0, 3.0, 30)]
    ]
    (entry,) = scoreboard.entries(folded)
    assert entry.mean == pytest.approx((1.25 + 3.0) / 2)
    assert entry.spread == pytest.approx((3.0 - 1.25) / math.sqrt(2))
    assert (len(entry.means), len(entry.records), entry.lacking) == (2, 3, 7)


def test_the_scoreboard_shows_impossible_rows() -> None:
    impossible = fitted(model="vine", test_mean=-math.inf, rows_minus_inf=2)
    text = tables("likelihood", [fitted(), fitted(seed=1, test_mean=2.0), impossible])
    assert "| gas | **1.50 ± 0.71** | -inf [2 of 10 rows] |" in text
    assert "| GMM | 1.500 ± 0.707 | 1.00 | -9.0 | 0 of 20 | 1.000 | 1 | 0.1 | 0.1 | 2 |" in text


def test_the_scoreboard_shows_mass_beside_density_on_grids() -> None:
    text = tables("likelihood", [fitted(test_cells=0.5), fitted(model="kde")])
    assert "| model | test | over cells | median |" in text
    assert "| GMM | 1.000 | 0.500 | 1.00 |" in text
    assert "| KDE | 1.000 |  | 1.00 |" in text


def test_the_scoreboard_compares_small_sets_with_the_better_peer() -> None:
    records = [
        fitted("iris", model, fold=fold, test_mean=mean)
        for model, mean in {"fast": -2.0, "gmm": -2.5, "kde": -2.2}.items()
        for fold in range(FOLDS)
    ]
    assert "- iris: fast +0.20" in tables("likelihood", records)
    # A fold of one is lacking: no comparison.
    assert "- iris" not in tables("likelihood", records[:-1])


def test_the_papers_table_names_rows_floor_and_published_figures() -> None:
    boone = {"name": "miniboone", "test_min": -300.0, "fit_s": 8.0}
    records = [
        fitted(model="paper", test_mean=-30.0, **boone),
        fitted(model="paper", seed=1, test_mean=-32.0, **boone),
        fitted(model="nmdma", test_mean=-math.inf, rows_minus_inf=2, **boone | {"partial_rows": 0}),
        fitted("power", "paper", test_mean=0.5),
    ]
    paper = {
        "train_rows": {"miniboone": 29_556, "power": 1_659_917},
        "published": {"miniboone": {"MDMA": "-29.0"}, "power": {"MDMA": "0.57"}},
        "same_test_rows": ["miniboone"],
    }
    text = tables("density", records, paper)
    assert "| MINIBOONE | -31.00 ± 1.41 | -inf [2] | 4,123 | 5,339 |" in text
    assert "| MINIBOONE | -29.50 (-300) | -29.50 (-300) |" in text
    assert "| MDMA | -29.0 | 29,556 |" in text
    assert "| here: paper's MDMA | -31.00 ± 1.41 | 4,123 and 5,339 with gaps |" in text
    assert "0.57" not in text  # other test rows
    assert "scoreboard" not in text


def test_the_scoreboard_fills_in_what_was_not_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [fitted("gas", "best", test_mean=77.0), fitted("power", "best", test_mean=88.0)]
    monkeypatch.setattr(paper_table, "scoreboard", lambda paper, names: found)
    text = tables("density", [fitted("gas", "best"), fitted("power", "ht")])
    assert "77.00" not in text
    assert "| POWER | 88.00 |" in text


def test_a_likelihood_of_zero_is_marked_in_the_figure() -> None:
    records = [fitted(model="paper"), fitted(model="vine", test_mean=-math.inf)]
    axes = paper_table.figures(records, {})["scores"].axes[0]
    assert [text.get_text() for text in axes.texts] == [r"$-\infty$"]


# Other tables -----------------------------------------------------------------------------------


def test_a_toy_table_lacks_what_was_not_run() -> None:
    records = [
        {"seed": 0, "set": "gaussians", "model": "truth", "test": -3.0},
        {"seed": 0, "set": "gaussians", "model": "paper", "test": -3.25, "fit_s": 2.0},
        {"seed": 0, "set": "spirals", "model": "truth", "test": None},
        {"seed": 0, "set": "spirals", "model": "paper", "test": -2.0, "fit_s": 4.0},
    ]
    lines = toy.tables(records, {}).splitlines()
    assert lines[4] == "| 8 Gaussians | -3.000 | -3.250 (0.250) |"
    assert lines[5] == "| two spirals | not in closed form | -2.000 |"
    assert lines[-1] == "| two spirals | 4 |"
    assert "NSF" not in "".join(lines)


def test_tables_of_information_tell_the_error_of_the_mean_over_seeds() -> None:
    line = {"rows": 100, "model": "paper", "fit_s": 2.0, "exact": [1.0, 2.0], "stderrs": [0.1] * 2}
    records = [
        {**line, "seed": 0, "values": [1.2, 2.0], "seen_values": [2.0, 2.0]},
        {**line, "seed": 1, "values": [1.0, 2.4], "seen_values": [2.0, 2.0]},
    ]
    lines = gaussian.tables(records, {}).splitlines()
    assert lines[4] == "| 1 | 1.000 | 1.100 ± 0.141 |"
    assert lines[-1].startswith("| paper's model | 100 | 2 | 0.1500 | 0.2000 | 0.5000 |")


def test_levels_of_independence_are_judged_by_the_default_test() -> None:
    about = {"method": "marginals", "kind": "null", "n": 300, "repetitions": 500}
    about |= {"cpu_seconds": 0.1}
    shares = {"linear": (0.05, 0.09), "alike": (0.08, 0.05)}
    records = [
        {
            **about,
            "mechanism": name,
            "rejected": {"marginals": {"0.05": ours}, "marginals, q=1": {"0.05": other}},
        }
        for name, (ours, other) in shares.items()
    ]
    assert independence.facts(records) == {"levels": "1 of 2"}
    text = tables("independence", records)
    assert "Of 2 levels of ours 1 lie within" in text
    assert "- alike, 300 rows, marginals: 0.080" in text
    assert "- linear" not in text


def test_the_rate_is_halved_as_by_torch() -> None:
    from torch import nn, optim

    theirs = optim.SGD([nn.Parameter(torch.ones(1))], lr=3e-3)
    options = {"patience": 3, "factor": 0.5, "min_lr": training.LEAST_RATE}
    schedule = optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    ours = training.plateau(3e-3, 3)
    rng = np.random.default_rng(0)
    for step in range(200):
        loss = 20 + rng.normal() - 0.01 * step
        schedule.step(loss)
        assert ours(step, loss) == pytest.approx(theirs.param_groups[0]["lr"])


def test_the_curve_of_training_says_what_comes_closest() -> None:
    line = {"start": "paper", "width": 9, "rate": 0.01, "schedule": "plateau", "steps": 8000}
    line |= {"exact": [1.0, 3.0], "nats_short": 0.5, "seed": 0}
    records = [
        {**line, "at": 4000, "values": [0.5, 2.5]},
        {**line, "at": 8000, "values": [0.5, 2.7]},
        {**line, "seed": 1, "at": 4000, "values": [0.5, 1.5]},
        {**line, "schedule": "line", "at": 8000, "values": [1.0, 2.8]},
    ]
    text = training.tables(records, {})
    assert text.startswith("Closest to the exact values: 0.950 of them, after 8,000 steps of 9 ")
    assert "As the authors train: 0.625 after 4,000 steps and 0.800 after 8,000 steps." in text
    assert "(authors) | 0.01 | 0.625 ± 0.177 | 0.800 |" in text


def test_tasks_are_solved_within_a_tenth() -> None:
    assert tasks.solved(0.95, 1.0)
    assert tasks.solved(2.19, 2.0)
    assert not tasks.solved(2.3, 2.0)
    shared = {"seed": 0, "method": "quick", "cpu_seconds": 2.0, "exact": 1.0}
    records = [
        {**shared, "task": "a", "value": 0.95, "solved": True},
        {**shared, "task": "b", "value": 0.5, "solved": False},
        {**shared, "task": "gaussian", "rows": 10, "values": [1.0], "exact": [0.75]},
    ]
    text = tables("information-tasks", records)
    assert "- cross_fit: 1 of 2, 2 CPU seconds each" in text
    assert "| a | 1.000 | 0.950 |\n| b | 1.000 | 0.500 (no) |" in text
    assert "| 10 | 1 | 0.2500 nats |" in text


def test_without_gaps_all_ways_to_fill_them_are_one() -> None:
    line = {"set": "gas", "seed": 0, "fill_s": 0.0, "fit_s": 1.0, "gaps": 0.0}
    records = [
        {**line, "share": 0.0, "model": "nsf_mice", "test": 1.5, "test_median": 2.5},
        {**line, "share": 0.5, "model": "nsf_mice", "test": 1.0, "test_median": 2.0},
        {**line, "share": 0.5, "model": "nsf_mean", "test": 0.5, "test_median": 1.0},
    ]
    lines = missing.tables(records, {}).splitlines()
    assert lines[4] == "| 0 | 1.50 | 1.50 |"
    assert lines[5] == "| 0.5 | 1.00 | 0.50 |"
    assert "| 0.5 | 2.00 | 1.00 |" in lines


def test_a_search_given_up_is_told_and_differences_are_within_graphs_that_both_ended() -> None:
    truths = {"the DAG": [["x1", "x2"]]}
    shared = {"set": "sigmoidal", "rows": 50, "fit_s": 0.0, "search_s": 20.0, "truths": truths}
    given_up = {**shared, "seed": 0, "method": "kci", "finished": False}
    text = tables("causal", [given_up], {"sigmoidal": {"MDMA": ["15.6", "12.8"]}})
    assert "| PC, KCI |  |  |  |  | 50 |  |  | 20 | 0 of 1 in time |" in text
    assert "| the empty graph | 1.0 | 1.0 | 1.0 | 0 |" in text
    assert "| paper: MDMA | 15.6 | 12.8 |" in text
    shared |= {"edges": 1, "tests": 1, "finished": True}
    records = []
    for seed, gaussian_off, ours_off in ((0, 10, 8), (1, 30, 26), (2, 50, None)):
        for method, off in (("gaussian", gaussian_off), ("ours", ours_off)):
            far = {"the DAG": {"directed": off, "usual": off, "skeleton": off}}
            ended = {"distances": far} if off is not None else {"finished": False}
            records.append({**shared, "seed": seed, "method": method, **ended})
    # 2 and 4: mean 3, standard deviation the root of 2, of two graphs.
    line = "| PC, ours (q = 1) | 3.0 ± 1.0 | 3.0 ± 1.0 | 3.0 ± 1.0 | 2 |"
    assert line in tables("causal", records)


def test_tables_of_structures_and_times() -> None:
    shared = {"part": "structures", "set": "gas", "columns": 8, "width": 4, "steps": 9, "fit_s": 1}
    times = {"part": "sampling", "columns": 8, "width": 4}
    records = [
        {**shared, "seed": 0, "structure": "coupled", "test": 1.0},
        {**shared, "seed": 1, "structure": "coupled", "test": 3.0},
        {**shared, "seed": 0, "structure": "mera", "test": 2.0},
        {**times, "seed": 0, "way": "components", "draws": 100, "draw_s": 0.1},
        {**times, "seed": 0, "way": "autoregressive", "draws": 10, "draw_s": 1.0},
    ]
    assert appendix.rate(records[3:], 8, "components") == pytest.approx(1000)
    text = appendix.tables(records, {})
    assert "| GAS, d = 8 | 2.00 ± 1.41 (9; 1) | 2.00 (9; 1) |" in text
    assert "| 8 | 1,000 | 10 | 100 |" in text
    assert "random" not in text


def test_ranks_of_detectors_are_means_over_sets() -> None:
    def found(model: str, auroc: float, name: str = "cardio", **more: Any) -> Record:
        about = {"set": name, "model": model, "seed": 0, "missing": 0.0, "imputation": None}
        about["protocol"] = "unsupervised"
        return {**about, "auroc": auroc, "ap": auroc / 2, "fit_s": 1.0, "score_s": 0.5, **more}

    records = [
        *(found("marginals", 0.9), found("knn", 0.8), found("gmm", 0.8)),
        *(found("marginals", 0.5, "wbc"), found("knn", 0.9, "wbc"), found("gmm", 0.7, "wbc")),
        found("knn", 0.3, missing=0.2, imputation="mean"),
        found("knn", 0.3, protocol="semi-supervised"),
    ]
    complete = anomalies.Way("unsupervised", 0.0, None)
    assert anomalies.ways(records)[0] == complete
    frame = anomalies.means(records, "auroc", complete)
    assert anomalies.ranks(frame).to_dict() == {"marginals": 2.0, "knn": 1.75, "gmm": 2.25}
    assert anomalies.ranks(frame, ["wbc"]).to_dict() == {"marginals": 3.0, "knn": 1.0, "gmm": 2.0}
    assert len(anomalies.ways(records)) == 3
    text = tables("anomalies", records)
    assert "| cardio* | **0.900** | 0.800 | 0.800 |" in text
    assert "| mean rank | 2.00 | **1.75** | 2.25 |" in text


def test_means_of_detectors_are_over_sets_that_are_whole() -> None:
    line = {"seed": 0, "model": "ours", "fit_s": 1.0, "score_s": 0.5, "ap": 0.5}
    line |= {"test_anomalies": 3, "share": 0.0}
    records = [
        {**line, "set": name, "auroc": auroc}
        for name, auroc in (("thyroid", 0.9), ("pendigits", 0.7), ("wbc", 0.5))
    ]
    lines = anomalies.tables(records, {}).splitlines()
    assert lines[4] == "| AUROC | MDMAOutlierDetector() | 0.700 |"
    assert lines[6] == "| AUROC, other sets | MDMAOutlierDetector() | 0.600 |"
    assert "| thyroid (3) | MDMAOutlierDetector() | 0.900 |" in lines
    assert lines[-1].endswith("MDMAOutlierDetector() 1.5.")
    more = {**records[0], "share": 0.5}
    assert anomalies.whole([*records, more]) == [records[0], more]


def test_mean_ranks_of_imputation_share_ties_and_seeds() -> None:
    def made(method: str, seed: int, rmse: float) -> Record:
        about = {"table": "mpg", "method": method, "mechanism": "mcar", "share": 0.3, "seed": seed}
        rest = dict.fromkeys(("crps", "coverage", "width", "accuracy"), None)
        return {**about, **rest, "rmse": rmse, "seconds": 1.0}

    records = [made("mdma", 0, 1.0), made("mdma", 1, 9.0), made("knn", 0, 1.0), made("mean", 0, 2)]
    found = imputation.entries(records)
    # Of seed 1 the others have no figure: it does not count for the first either.
    assert imputation.mean_ranks(found, "rmse") == {"mdma": 1.5, "knn": 1.5, "mean": 3.0}


def test_tables_of_prediction_mark_the_best() -> None:
    line = {"table": "airfoil", "missing": 0.3, "seconds": 2.0, "rmse": 0.5, "coverage": 0.9}
    records = [
        {**line, "seed": 0, "model": "mdma", "crps": 0.25, "width": 2.0},
        {**line, "seed": 0, "model": "linear", "crps": 0.5, "width": 1.0},
    ]
    text = prediction.tables(records, {})
    start = "| airfoil | 30% | ours | **0.250** | **0.500** | 0.900 | 2.000 | 2.0 | 1 |"
    assert start in text
    assert "| airfoil | 30% | linear, normal errors | 0.500 | **0.500** |" in text


def test_repetitions_of_several_seeds_are_one_level() -> None:
    base = {"kind": "null", "n": 300, "mechanism": "linear", "method": "marginals"}
    records = [
        {**base, "seed": s, "repetitions": n, "cpu_seconds": 1.0, "rejected": {"marginals": share}}
        for s, n, share in ((0, 100, {"0.05": 0.04}), (1, 300, {"0.05": 0.08}))
    ]
    (found,) = independence.pooled(records)
    assert found["repetitions"] == 400
    assert found["rejected"]["marginals"]["0.05"] == pytest.approx(0.07)
    assert independence.facts(records) == {"levels": "1 of 1"}
