"""What tests of studies share: the types that a user has, and calls of the command line."""

from collections.abc import Iterator

import pytest
import torch
from typer.testing import CliRunner, Result

from studies.__main__ import app


@pytest.fixture(autouse=True)
def _user_dtype() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def works(*words: object) -> str:
    done = call(*words)
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.stdout


def refused(*words: object) -> str:
    done = call(*words)
    assert done.exit_code != 0
    return str(done.exception)
