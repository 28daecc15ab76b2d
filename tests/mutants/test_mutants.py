"""Mutants still fit the code; `python -m tests.mutants` runs them."""

from __future__ import annotations

import pytest

from tests._kernel.compiling import HERE as C_TESTS
from tests.mutants.__main__ import MUTANTS
from tests.mutants.mutant import ROOT, CTests, Mutant, PatchError, c


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_patch_of_a_mutant_applies_once(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert mutant.applied(text) != text


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_leg_of_a_mutant_exists(mutant: Mutant) -> None:
    if isinstance(mutant.leg, CTests):
        assert all((C_TESTS / f"{name}.c").exists() for name in mutant.leg.names)
    else:
        assert all((ROOT / node.partition("::")[0]).exists() for node in mutant.leg.nodes)


def test_names_of_mutants_differ() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 50


def test_text_that_is_not_there_once_is_an_error() -> None:
    mutant = Mutant("none", "a file", "here", "there", c("flush_test"))
    for text in ("", "here and here"):
        with pytest.raises(PatchError):
            mutant.applied(text)
