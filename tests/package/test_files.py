"""The wheel and the sdist hold what they should, and everything agrees on the version."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from tests.package.environment import ROOT, project, succeed

Built = tuple[Path, Path]


def test_the_files_pass_the_index_checks(built: Built) -> None:
    succeed(sys.executable, "-m", "twine", "check", "--strict", *built)
    succeed(sys.executable, "-m", "check_wheel_contents", built[0])


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built[0]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "marginals"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if tracked.returncode == 0:
        assert names == {name for name in tracked.stdout.split() if (ROOT / name).exists()}
    assert {"marginals/py.typed", "marginals/explorer/static/index.html"} <= names


def test_the_sdist_holds_no_junk(built: Built) -> None:
    with tarfile.open(built[1]) as archive:
        paths = [Path(*Path(name).parts[1:]) for name in archive.getnames()]
    assert {path.parts[0] for path in paths} == {
        *("marginals", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"),
        *("PKG-INFO", ".gitignore"),
    }
    assert not [path for path in paths if "__pycache__" in path.parts]
    assert built[1].stat().st_size < 2**20


def test_all_files_agree_on_the_version() -> None:
    version = project()["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == version
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == version


def test_the_citation_names_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (paper,) = citation["references"]
    assert paper["title"] == "Marginalizable Density Models"
    assert [a["family-names"] for a in paper["authors"]] == ["Gilboa", "Pakman", "Vatter"]
    assert paper["url"] == project()["urls"]["Paper"]


def test_the_lowest_versions_are_those_declared() -> None:
    """Ray is left out: its lowest version was its newest."""
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    extras = project()["optional-dependencies"]
    own = [extras[name] for name in ("arrow", "sql", "plot", "explore", "causal")]
    for text in (*project()["dependencies"], *(text for found in own for text in found)):
        requirement = Requirement(text)
        if requirement.name != "marginals":
            (bound,) = requirement.specifier
            assert bound.operator == ">="
            pin = Version(pins.pop(requirement.name)).release
            assert pin[: len(Version(bound.version).release)] == Version(bound.version).release
    assert pins == {}
