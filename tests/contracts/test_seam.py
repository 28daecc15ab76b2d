"""What crosses the seam between core and wings only becomes less."""

from __future__ import annotations

import tomllib

from tests.contracts.seam import ROOT, Seam, count

NAMES_MOST = 56
REACH_INS_MOST = 0


def test_core_imports_no_wing() -> None:
    assert count().inward == []


def test_no_code_asks_for_the_kind_of_a_directory() -> None:
    assert count().kinds == []


def test_wings_import_no_more_of_the_core_than_before() -> None:
    found = count()
    assert len(found.internals) <= NAMES_MOST
    assert len(found.reach_ins) <= REACH_INS_MOST


def test_import_contract_names_the_packages_of_the_seam() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contract = next(each for each in tool["importlinter"]["contracts"] if each["id"] == "core")
    seam = Seam.read()
    assert {f"commitlog.{name}" for name in seam.core - {"_kernel"}} == set(
        contract["source_modules"]
    )
    assert {f"commitlog.{name}" for name in seam.wings if "." not in name} == set(
        contract["forbidden_modules"]
    )
