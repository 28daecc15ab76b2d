"""The extras: what they install, and the message if one is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import commitlog
from commitlog.base.extras import OF_CLI

ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
LACKING = """
import sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Lacking())
"""


def packages_of(extra: str) -> list[str]:
    """The distributions of an extra; another extra by its own name."""
    return [re.sub(r"commitlog-engine\[(.*)\]|>.*", r"\1", each) for each in EXTRAS[extra]]


def without(package: str, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LACKING + code, package], check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"all"}))
def test_table_of_extras_lists_every_package(extra: str) -> None:
    page = (ROOT / "docs/installing.md").read_text()
    (row,) = re.findall(rf"^\| `{extra}` \|.*", page, re.MULTILINE)
    for package in packages_of(extra):
        assert re.search(rf"\b{re.escape(package)}\b", row), package


def test_each_package_of_the_cli_has_its_own_error() -> None:
    assert {"click", *OF_CLI.values()} == set(packages_of("cli"))


def test_extra_all_includes_every_other_extra() -> None:
    together = ",".join(packages_of("all"))
    assert set(together.split(",")) == EXTRAS.keys() - {"all"}


@pytest.mark.parametrize(
    ("package", "code", "says"),
    [
        ("polars", "import commitlog.polars", "commitlog.polars needs polars: {}[polars]'"),
        ("pyspark", "from commitlog import spark; spark.session()", "needs pyspark: {}[spark]'"),
        ("prometheus_client", "import commitlog.metrics", "needs prometheus_client: {}[metrics]'"),
    ],
)
def test_a_missing_package_is_an_error_with_its_extra(package: str, code: str, says: str) -> None:
    done = without(package, code)
    assert done.returncode == 1
    assert says.format("pip install 'commitlog-engine") in done.stderr.splitlines()[-1]


def test_a_command_without_its_package_names_the_extra(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "log").close()
    code = (
        f"from commitlog.tools.cli import run; sys.exit(run(['info', {str(tmp_path / 'log')!r}]))"
    )
    done = without("humanize", code)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "commitlog: this command needs humanize: pip install 'commitlog-engine[cli]'\n"
    )
