"""The models name parts of the code, and `make model` reports missing tools."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from model import check

ROOT = Path(__file__).resolve().parents[2]
MODELS = {path.stem: path.read_text(encoding="utf-8") for path in check.FOLDER.glob("*.pml")}
PROTOCOL = MODELS["protocol"]
INVARIANTS = {
    "protocol": {f"I{number}" for number in range(1, 11)},
    "replication": {f"R{number}" for number in range(1, 5)},
}


def modelled_functions() -> list[tuple[str, str]]:
    """Return the file and name of each function that the head of the model lists."""
    part = PROTOCOL.partition("Functions of commitlog/_kernel that are modelled\n")[2].partition(
        "\n *\n"
    )[0]
    named = []
    file = ""
    for line in part.splitlines():
        found = re.fullmatch(r" \*   (\w+\.[ch]| {8,9}) +(.*)", line)
        assert found is not None, line
        file = found[1].strip() or file
        named += [(file, name) for name in re.findall(r"\w+", found[2])]
    return named


def test_model_lists_the_functions_that_it_models() -> None:
    assert len(modelled_functions()) > 25


@pytest.mark.parametrize(("file", "name"), modelled_functions())
def test_each_modelled_function_is_in_the_kernel(file: str, name: str) -> None:
    source = (ROOT / "commitlog" / "_kernel" / "c" / file).read_text(encoding="utf-8")
    assert re.search(rf"^(?:[A-Za-z_].*\b)?{name}\([^;{{]*\{{", source, re.MULTILINE), (
        f"{file} defines no {name}"
    )


def test_each_file_named_by_the_replication_model_exists() -> None:
    heading = "What is modelled, in commitlog/network/replication\n"
    part = MODELS["replication"].partition(heading)[2]
    named = re.findall(r"^ \*   (\w+\.py) ", part, re.MULTILINE)
    assert len(named) > 3
    assert all((ROOT / "commitlog/network/replication" / name).exists() for name in named)


@pytest.mark.parametrize("model", MODELS)
def test_every_stated_invariant_is_asserted(model: str) -> None:
    stated = set(re.findall(r"^ \*   ([IR]\d+) ", MODELS[model], re.MULTILINE))
    asserted = set(re.findall(r"assert\(.*\b([IR]\d+)\)", MODELS[model]))
    assert stated == asserted == INVARIANTS[model]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_mutation_is_checked_against_an_invariant(model: str) -> None:
    mutations = [mutation for mutation in check.MUTATIONS if mutation.model == model]
    defined = set(
        re.findall(
            r"^#define (\w+) \d+",
            MODELS[model].partition("--- mutations")[2].partition("/* --- steps")[0],
            re.MULTILINE,
        )
    )
    assert defined - {"none"} == {mutation.name for mutation in mutations}
    assert {mutation.invariant for mutation in mutations} <= INVARIANTS[model]


def test_search_with_a_spin_warning_is_incomplete() -> None:
    said = (
        "State-vector 9 byte, depth reached 12, errors: 0\n 1.5e+07 states, stored\n  "
        "10.5\ttotal actual memory usage\n"
    )
    assert check.read_outcome(said, 1.0) == check.Outcome(0, "", 15_000_000, 12, 10.5, 1.0, True)
    assert not check.read_outcome(f"error: max search depth too small\n{said}", 1.0).complete
    assert not check.read_outcome(f"Warning: Search not completed\n{said}", 1.0).complete
    broken = check.read_outcome(
        "pan:1: assertion violated ((0)||I7) (at depth 3)\n"
        + said.replace("errors: 0", "errors: 1"),
        1.0,
    )
    assert (broken.errors, broken.complaint) == (1, "I7")


def test_missing_spin_error_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, check.__file__],
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        done.stderr == "model: spin is missing: install it (Debian, Ubuntu: apt-get install spin)\n"
    )
