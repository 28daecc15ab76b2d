"""What crosses the seam between core and wings only becomes less, and has one door."""

from __future__ import annotations

import tomllib

from tests.contracts.seam import ROOT, Seam, count

NAMES_MOST = 31
REACH_INS_MOST = 0


def test_core_imports_no_wing() -> None:
    assert count().inward == []


def test_no_code_asks_for_the_kind_of_a_directory() -> None:
    assert count().kinds == []


def test_wings_import_no_more_of_the_core_than_before() -> None:
    found = count()
    assert len(found.internals) <= NAMES_MOST
    assert len(found.reach_ins) <= REACH_INS_MOST


def test_wings_import_the_core_only_through_the_extension_module() -> None:
    assert count().direct == []


def test_import_contracts_name_the_packages_of_the_seam() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = {each["id"]: each for each in tool["importlinter"]["contracts"]}
    seam = Seam.read()
    core = {f"commitlog.{name}" for name in seam.core}
    wings = {f"commitlog.{name}" for name in seam.wings if "." not in name}
    inward, door = contracts["core"], contracts["door"]
    assert set(inward["source_modules"]) == core - {"commitlog._kernel"}
    assert set(inward["forbidden_modules"]) == set(door["source_modules"]) == wings
    assert set(door["forbidden_modules"]) == core
    assert "ignore_imports" not in door
