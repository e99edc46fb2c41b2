"""The package as a user gets it: built once, and installed without extras."""

from pathlib import Path

import pytest

from tests.package.environment import Environment, build, core_environment


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def core(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return core_environment(tmp_path_factory.mktemp("core") / "env", built[0])
