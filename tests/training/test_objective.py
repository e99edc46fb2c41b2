"""Training with columns in focus: the objective, and what it is for."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from marginals.cells.evidence import Evidence
from marginals.densities.build import build
from marginals.training import fit
from marginals.training.objective import Focus, make_focus


def rows() -> Tensor:
    """Return rows whose first column depends on the second; the others form sharp clusters."""
    x = torch.randn(300, 4)
    x[:, 0] = x[:, 1] ** 2 + 0.2 * x[:, 0]
    cluster = torch.randint(4, (300,))
    x[:, 2] = cluster + 0.05 * x[:, 2]
    x[:, 3] = (cluster * 3 % 4) ** 2 + 0.05 * x[:, 3]
    return x


def conditional(model: torch.nn.Module, x: Tensor) -> Tensor:
    return model.logpdf(x[:, :1], [0], Evidence.exact(x[:, 1:], [1, 2, 3]))  # type: ignore[operator]


def test_steps_condition_on_all_others_or_a_part() -> None:
    focus = Focus((0, 2), 3.0, {}, 0)
    drawn = [focus._drawn(range(5), step) for step in range(200)]
    assert drawn == [focus._drawn(range(5), step) for step in range(200)]
    assert {column for column, _ in drawn} == {0, 2}
    assert not any(column in given for column, given in drawn)
    share = sum(len(given) == 4 for _, given in drawn) / 200
    assert 0.5 < share < 0.75
    assert any(given == [] for _, given in drawn)


def test_value_is_a_weighted_log_conditional() -> None:
    x = rows()
    model = build(x, width=5)
    focus = make_focus(model, [0], 3.0, 0)
    assert focus is not None
    known = Evidence.exact(x)
    joint = model.log_value(known)
    assert_close(
        focus.mean_value(model.log_value, known, joint),
        3 * conditional(model, x),
        rtol=1e-4,
        atol=1e-4,
    )
    for step in range(4):
        column, given = focus._drawn(known.columns, step)
        own = known.select([column])
        expected = 3 * model.log_conditional(own, known.select(given) if given else None)
        found = focus.step_value(model.log_value, known, joint, step)
        assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_rows_without_the_column_add_nothing() -> None:
    x = rows()
    x[:, 0] = torch.nan
    model = build(rows(), width=5)
    focus = make_focus(model, [0], 3.0, 0)
    assert focus is not None
    known = Evidence.exact(x)
    value = focus.step_value(model.log_value, known, model.log_value(known), 0)
    assert_close(value, torch.zeros_like(value), rtol=0, atol=1e-5)


def test_atoms_leave_with_their_column() -> None:
    """The mark of an atom says where the column is, so that it may not stay behind."""
    x = rows()
    x[::3, 1] = 0.0
    model = build(x, tensor="copula", width=3, atoms={1: [0.0]})
    evidence, _ = model.settled(model.checked(x))
    assert evidence.columns == (0, 1, 2, 3, 4)
    focus = make_focus(model, [1], 1.0, 0)
    assert focus is not None
    found = focus.mean_value(model.log_value, evidence, model.log_value(evidence))
    given = Evidence.exact(x[:, [0, 2, 3]], [0, 2, 3])
    assert_close(found, model.logpdf(x[:, [1]], [1], given), rtol=1e-4, atol=1e-4)
    drawn = [make_focus(model, [0], 1.0, seed)._drawn(evidence.columns, 0)[1] for seed in range(99)]  # type: ignore[union-attr]
    assert all((1 in given) == (4 in given) for given in drawn)


def test_focus_improves_the_conditional() -> None:
    x, held = rows(), rows()
    scores = []
    for weight in (0.0, 10.0):
        model = build(x, width=4, leaves="normal", seed=0)
        options = {"learning_rate": 0.05, "max_steps": 200, "progress": False}
        fit(model, x, validation=held, focus=(0,), focus_weight=weight, **options)
        with torch.no_grad():
            scores.append(float(conditional(model, held).mean()))
    assert scores[1] > scores[0] + 0.1


def test_columns_are_checked() -> None:
    model = build(rows(), width=2)
    with pytest.raises(ValueError, match="between 0 and 3; got 7"):
        fit(model, rows(), focus=(7,), focus_weight=1.0, max_steps=1)
    with pytest.raises(ValueError, match="focus_weight"):
        fit(model, rows(), focus=(0,), focus_weight=-1.0, max_steps=1)
