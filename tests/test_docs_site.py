"""What the site has for programs: llms.txt, the manual page, and the list of versions."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from commitlog import __version__
from tests.host import ROOT
from tests.tools.cli.program import run


def loaded(name: str) -> ModuleType:
    """Return a module of docs/site, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def llms() -> str:
    readme, index = (ROOT / "README.md").read_text(), (ROOT / "docs" / "index.md").read_text()
    return str(loaded("llms").page_list(readme, index))


def test_llms_txt_has_the_form_of_its_specification(llms: str) -> None:
    blocks = llms.split("\n\n")
    assert blocks[0] == "# commitlog"
    assert re.fullmatch(r"> [^\n]+", blocks[1])
    before, *sections = re.split(r"^## ", llms, flags=re.MULTILINE)
    assert "\n#" not in before
    assert [section.partition("\n")[0] for section in sections][-1] == "Optional"
    for section in sections:
        for line in filter(None, section.split("\n")[1:]):
            assert re.fullmatch(r"- \[[^\]]+\]\([^)]+\): [^\[]+", line), line


def test_llms_txt_says_which_package_to_install(llms: str) -> None:
    assert "commitlog-engine" in llms.partition("## ")[0]


def test_llms_txt_links_to_each_page_of_the_index(llms: str) -> None:
    links = re.findall(r"\]\(([^)]+)\)", llms)
    assert len(links) == len(set(links)) > 50
    for link in links:
        assert (ROOT / "docs" / re.sub(r"\.html$", ".rst", link)).is_file(), link


def test_sources_beside_the_list_include_what_they_name() -> None:
    whole = loaded("llms").whole
    assert whole(ROOT / "docs" / "changelog.md") == (ROOT / "CHANGELOG.md").read_text()
    assert whole(ROOT / "docs" / "tasks.md") == (ROOT / "docs" / "tasks.md").read_text()


@pytest.fixture(scope="module")
def manual() -> str:
    return str(loaded("manual").manual())


def test_manual_has_a_section_for_each_command(manual: str) -> None:
    listed = re.findall(r"^  ([a-z][a-z-]+)  ", run("--help").stdout.decode(), re.MULTILINE)
    sections = re.findall(r'^\.SH "commitlog (.+)"$', manual, re.MULTILINE)
    assert [name.replace("\\-", "-") for name in sections] == listed
    assert len(listed) > 25
    assert manual.startswith(f'.TH COMMITLOG 1 "" "commitlog {__version__}"')


def test_manual_says_what_help_says_of_tail(manual: str) -> None:
    section = manual.partition('.SH "commitlog tail"')[2].partition("\n.SH ")[0]
    assert r"\fB\-f, \-\-follow\fP" in section
    assert ".nf\nExamples:\n  commitlog tail orders\n" in section
    assert r"are escaped: \en, \ex1b, \eu202e." in section
    assert "_COMMITLOG_COMPLETE=bash_source" in manual


def test_no_text_of_the_manual_is_a_request_of_roff(manual: str) -> None:
    known = {".TH", ".SH", ".SS", ".PP", ".TP", ".nf", ".fi"}
    assert {line.split()[0] for line in manual.splitlines() if line[:1] in (".", "'")} <= known
    assert set(re.findall(r"\\.", manual)) == {"\\-", "\\e", "\\(", "\\f"}


def test_published_versions_are_listed_newest_first(tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "docs"
    site.mkdir()
    (site / "index.html").write_text("first")
    (site / "llms.txt").write_text("# commitlog\n- [Tutorial](tutorial.md): append\n")
    publish = loaded("publish").publish
    for version in ("1.9.0", "1.10.0", "1.2.0"):
        publish(site, folder, version)
    (site / "index.html").write_text("second")
    publish(site, folder, "1.9.0")
    listed = json.loads((folder / "versions.json").read_text())
    assert [one["version"] for one in listed] == ["1.10.0", "1.9.0", "1.2.0"]
    assert [(folder / one["url"] / "index.html").read_text() for one in listed] == [
        "first",
        "second",
        "first",
    ]
    assert "url=1.10.0/" in (folder / "index.html").read_text()
    assert "](1.10.0/tutorial.md)" in (folder / "llms.txt").read_text()
    assert sorted(path.name for path in folder.glob(".*")) == []


def test_publishing_without_a_folder_says_what_to_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert loaded("publish").main([]) == 2
    assert "name the folder" in capsys.readouterr().err
