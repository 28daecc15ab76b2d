"""The documentation agrees with the code: its code runs, its links resolve, its tables match the
code, and it uses the words of the glossary.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest

import commitlog
import commitlog.bus
import commitlog.keep
from commitlog import Options, TransientStorePool, Tuning, errors
from commitlog.metrics import LogCollector
from commitlog.pool.pool_options import PoolOptions
from commitlog.tools.cli import group
from tests.host import ROOT, Hosted, host_of
from tests.tools.cli.program import run

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")

# Words that pages must not use, and the word to use instead, from docs/glossary.md.
SYNONYMS = {
    r"(?<!directory )\bentr(?:y|ies)\b": "record",
    r"\bconsumers?\b": "tailer",
    r"\bchunks?\b": "segment, or range",
    r"\bfile segments?\b": "segment",
    r"\blog files?\b": "segment",
    r"\brollovers?\b": "roll",
    r"\bpersist\w*": "durable, or to flush",
    r"\bcommit(?:s|ted|ting)? to (?:the )?disk\b": "flush: a commit makes nothing durable",
    r"\babort(?:s|ed|ing)? (?:a|the|its) claim\b": "roll back",
}


# What several pages use, directly or by pyarrow, imported once.
IMPORTED = (
    "asyncio",
    "msgspec",
    "pandas",
    *(f"commitlog.{name}" for name in ("bus", "metrics", "queues", "replication", "topics")),
)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return [code for found, code in FENCE.findall(TEXTS[page]) if found == language]


def prose(page: Path) -> str:
    return FENCE.sub("", TEXTS[page])


def spans(page: Path) -> list[str]:
    """All backticked spans in the text and the tables of a page."""
    return SPAN.findall(prose(page))


ALL_SPANS = {span for page in PAGES for span in spans(page)}
WITH_CODE = [page for page in PAGES if blocks(page, "python")]


def script_of(page: Path) -> str:
    """Return the page's Python blocks at their original line numbers, so that a traceback shows the
    line numbers of the page.
    """
    script = []
    inside = False
    for line in TEXTS[page].splitlines():
        if line.startswith("```"):
            inside = not inside and line == "```python"
            script.append("")
        else:
            script.append(line if inside else "")
    return "\n".join(script) + "\n"


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    assert run_page(page, tmp_path).stderr == ""


def run_page(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # A script named django.py would be what `import django` finds.
    taken = importlib.util.find_spec(page.stem) is not None
    script = folder / f"{page.stem}{'_page' * taken}.py"
    script.write_text(script_of(page), encoding="utf-8")
    # Without `-X dev`: its asyncio warns on a machine where a step takes a tenth of a second.
    host = host_of(
        IMPORTED,
        ("-X", "faulthandler", "-W", "error"),
        (("PYTHONMALLOC", "debug"),),
    )
    with Hosted(
        host,
        "tests.host:run_script",
        [str(script)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONMALLOC": "debug"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        output, errors = process.communicate(timeout=100)
    assert process.returncode == 0, f"{name_of(page)}\n{errors}"
    return subprocess.CompletedProcess(script, process.returncode, output, errors)


def test_code_of_readme_run_twice_prints_only_new_records(tmp_path: Path) -> None:
    page = ROOT / "README.md"
    assert run_page(page, tmp_path).stdout.splitlines()[0] == "0 b'lena' b'two lamps'"
    assert run_page(page, tmp_path).stdout.splitlines()[0] == "3 b'lena' b'two lamps'"


def test_readme_is_short_with_ten_lines_of_code() -> None:
    page = ROOT / "README.md"
    assert len(TEXTS[page].splitlines()) <= 150
    for line in TEXTS[page].splitlines():
        assert len(line) <= 100 or line.startswith("|"), line
    (lines,) = [block.splitlines() for block in blocks(page, "python")]
    assert 8 <= len([line for line in lines if line]) <= 12


def test_tutorial_durability_and_recipes_have_code() -> None:
    recipes = {page for page in PAGES if page.parent.name == "recipes" and page.stem != "spark"}
    assert recipes
    assert recipes | {ROOT / "docs" / "tutorial.md", ROOT / "docs" / "durability.md"} <= set(
        WITH_CODE
    )


# --- commands -------------------------------------------------------------------------------------


# Its blocks also contain output; tests/test_docs_shell.py runs them.
TOUR = ROOT / "docs" / "shell.md"


def console_lines() -> list[str]:
    lines = [
        line
        for page in PAGES
        if page != TOUR
        for block in blocks(page, "console")
        for line in block.splitlines()
    ]
    assert all(line.startswith("$ ") for line in lines), (
        "a console block holds commands alone, so that what they print cannot go stale"
    )
    return [line.removeprefix("$ ") for line in lines]


def commands_of(program: str) -> set[str]:
    """The first words after the program's name, in console blocks and in backticks."""
    named = {*console_lines(), *ALL_SPANS}
    return {words[1] for words in map(str.split, named) if len(words) > 1 and words[0] == program}


def test_every_named_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = commands_of("make")
    assert {"demo", "test"} <= named
    assert named <= targets


@pytest.mark.parametrize("command", sorted(commands_of("commitlog")))
def test_every_named_command_exists(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0, done.stderr


def test_options_in_console_blocks_exist() -> None:
    for line in console_lines():
        words = shlex.split(line.partition(" | ")[0], comments=True)
        if words[0] != "commitlog" or words[1].startswith("-"):
            continue
        context = click.Context(group.group)
        command = group.group.get_command(context, words[1])
        assert command is not None, line
        commands = [command]
        if isinstance(command, click.Group):
            inner = command.get_command(context, words[2])
            assert inner is not None, line
            commands.append(inner)
        known = {name for one in commands for each in one.params for name in each.opts} | {"--help"}
        named = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}
        assert named <= known, line


def test_console_blocks_use_known_commands_and_extras() -> None:
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "optional-dependencies"
        ]
    )
    for line in console_lines():
        assert line.split()[0] in ("make", "commitlog", "pip"), line
        for listed in re.findall(r"\[([a-z,]+)\]", line):
            assert set(listed.split(",")) <= extras, line


# --- links and names ------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """A heading's anchor as code hosts generate it: lower case, no punctuation, hyphens for
    blanks.
    """
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_a_page_resolve(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.is_relative_to(ROOT), target
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pictures_of_a_page_exist(page: Path) -> None:
    for target in re.findall(r"!\[[^\]\n]+\]\(([^)\s]+)\)", prose(page)):
        assert (page.parent / target).is_file(), target


def test_screenshots_without_a_browser_name_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "site" / "screenshots.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "apt-get install chromium" in done.stderr


def test_every_page_is_reachable_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        onward = {
            (page.parent / target.partition("#")[0]).resolve()
            for target in LINK.findall(prose(page))
        } & set(PAGES)
        todo += onward - reached
        reached |= onward
    for_developers = {ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"}
    assert reached | for_developers == set(PAGES)


def test_every_named_source_file_exists() -> None:
    files = [
        path
        for folder in ("commitlog", "bench", "deploy", "tests", "docs", "examples", "model")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    ]
    known = (
        {path.name for path in files}
        | {name_of(path) for path in files}
        | {path.name for path in ROOT.iterdir()}
        | {"Python.h"}
    )
    known |= {name.removeprefix("commitlog/") for name in known}
    for page in PAGES:
        for span in spans(page):
            if re.fullmatch(r"[\w./*-]+\.(?:py|pyx|c|h|md)", span):
                assert any(fnmatch(name, span) for name in known), f"{name_of(page)}: {span}"


def test_architecture_layers_match_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    rows = re.findall(
        r"^\| (\d+) \| `(\w+)/` \|", TEXTS[ROOT / "docs" / "architecture.md"], re.MULTILINE
    )
    told = {(int(layer), package) for layer, package in rows}
    kept = {
        (number, name)
        for number, layer in enumerate(reversed(layers), 1)
        for name in re.findall(r"\w+", layer)
    }
    assert told <= kept
    assert {name for _, name in told} >= {
        path.parent.name for path in (ROOT / "commitlog").glob("*/__init__.py")
    }


def test_architecture_names_each_c_file_of_the_kernel_once() -> None:
    table = TEXTS[ROOT / "docs" / "architecture.md"].split("| C file | noun |")[1].split("\n\n")[0]
    named = re.findall(r"\w+\.c\b", table)
    assert sorted(named) == sorted(
        path.name for path in (ROOT / "commitlog" / "_kernel" / "c").glob("*.c")
    )


def test_drawings_of_architecture_name_files_that_exist() -> None:
    drawings = re.findall(
        r"^```\n(.*?)^```$", TEXTS[ROOT / "docs" / "architecture.md"], re.MULTILINE | re.DOTALL
    )
    named = re.findall(r"\b\w+/[\w/.]*", "".join(drawings))
    assert len(named) > 30
    assert [path for path in named if not (ROOT / "commitlog" / path).exists()] == []


def test_each_call_in_architecture_has_at_most_six_places() -> None:
    calls = TEXTS[ROOT / "docs" / "architecture.md"].split("## Follow a call")[1].split("## ")[0]
    tables = calls.split("| file | function | what happens |\n")[1:]
    assert len(tables) == 5
    for table in tables:
        assert len(re.findall(r"^\| `", table, re.MULTILINE)) <= 6


def test_functions_in_architecture_are_in_the_named_files() -> None:
    rows = re.findall(
        r"^\| `([\w/]+\.\w+)` \| (`.+?`) \| ",
        TEXTS[ROOT / "docs" / "architecture.md"],
        re.MULTILINE,
    )
    assert rows
    for path, functions in rows:
        text = (ROOT / "commitlog" / path).read_text(encoding="utf-8")
        for function in SPAN.findall(functions):
            owner, _, name = function.rpartition(".")
            assert re.search(rf"\bclass {owner}\b", text) or not owner, f"{path}: {function}"
            # In C a long return type is on its own line.
            definition = rf"^(?:\s*(?:c?def |static |int |bool ).*\b)?{name}\("
            assert re.search(definition, text, re.MULTILINE), f"{path}: {function}"


def survival(page: Path) -> tuple[str, str]:
    """The table in "What survives what", and the text below it."""
    section = TEXTS[page].partition("## What survives what\n\n")[2].partition("\n## ")[0]
    table, _, rest = section.partition("\n\n")
    return table, rest


def test_each_durability_table_cell_names_an_existing_test() -> None:
    """The cells are numbered; the list below the table names the test that proves each."""
    table, rest = survival(ROOT / "docs" / "durability.md")
    numbers = [int(number) for number in re.findall(r"\((\d)\)", table)]
    assert numbers == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len(re.findall(r"\((\d)\) \|", table)) == 2 * (len(table.splitlines()) - 2)
    proofs = re.findall(r"^- ((?:\(\d\)(?:, |\s+))+)(.+(?:\n  .+)*)", rest, re.MULTILINE)
    assert (
        sorted(int(number) for listed, _ in proofs for number in re.findall(r"\d", listed))
        == numbers
    )
    for listed, text in proofs:
        named = re.findall(r"`(test_\w+)`\s+in\s+`(tests/[\w/]+\.py)`", text)
        assert named, listed
        for test, path in named:
            assert f"\ndef {test}(" in (ROOT / path).read_text(encoding="utf-8"), (
                f"{path} has no {test}"
            )


def test_readme_durability_table_matches_durability_page() -> None:
    promised, _ = survival(ROOT / "README.md")
    proven, _ = survival(ROOT / "docs" / "durability.md")
    assert promised == re.sub(r" \(\d\)", "", proven)


# --- what the code has ----------------------------------------------------------------------------


def is_mentioned(name: str) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", span) for span in ALL_SPANS)


@pytest.mark.parametrize("name", commitlog.__all__)
def test_documentation_mentions_every_public_name(name: str) -> None:
    assert is_mentioned(name)


def test_every_queried_metric_exists() -> None:
    families = {family.name for family in LogCollector().describe()}
    suffixes = {"_total", "_bucket", "_sum", "_count"}
    known = families | {family + suffix for family in families for suffix in suffixes}
    queried = {
        name
        for span in ALL_SPANS
        for name in re.findall(r"\bcommitlog_[a-z_]+", span)
        if not name.endswith("_")
    }
    header = Path(commitlog.get_include(), "commitlog/capi.h").read_text(encoding="utf-8")
    in_c = set(re.findall(r"\bcommitlog_[a-z_]+", header))
    assert {"commitlog_up", "commitlog_flush_seconds_bucket"} <= queried
    others = {"commitlog_outbox", "commitlog_log"}  # a table, a fixture
    assert queried <= known | in_c | others


def test_every_named_error_exists() -> None:
    named = {span for span in ALL_SPANS if re.fullmatch(r"[A-Z]\w+Error", span)}
    assert named <= {
        *vars(errors),
        "OSError",
        "ValueError",
        "TypeError",
        "TimeoutError",
        "LookupError",
        "ModuleNotFoundError",
    }


def table_defaults(first: str) -> dict[str, Any]:
    """Name and default of each row of the table in docs/durability.md whose first option is
    `first`.
    """
    text = TEXTS[ROOT / "docs" / "durability.md"]
    rows = text[text.index(f"| `{first}` |") :].partition("\n\n")[0].splitlines()
    cells = [
        [cell.strip().strip("`") for cell in row.split(" | ")[:2]]
        for row in (row.removeprefix("| ") for row in rows)
    ]
    return {
        name: Tuning() if default == "Tuning()" else ast.literal_eval(default)
        for name, default in cells
    }


@pytest.mark.parametrize(("kind", "first"), [(Options, "flush"), (Tuning, "flush_least_pages")])
def test_options_and_defaults_match_the_documented_table(kind: type, first: str) -> None:
    stated = table_defaults(first)
    assert set(stated) == {field.name for field in dataclasses.fields(kind)}
    assert kind(**stated) == kind()


def test_pool_options_and_defaults_match_the_documented_table() -> None:
    stated = table_defaults("buffers")
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(TransientStorePool).parameters.items()
    }
    assert set(stated) == set(defaults)
    assert PoolOptions(**stated) == PoolOptions(**defaults) == PoolOptions()


@pytest.mark.parametrize(
    "kind", [commitlog.CommitLog, commitlog.Tailer, commitlog.Batch], ids=lambda kind: kind.__name__
)
def test_every_named_method_exists(kind: type) -> None:
    for span in ALL_SPANS:
        for name in re.findall(rf"^{kind.__name__}\.(\w+)", span):
            assert hasattr(kind, name), span


# --- words ----------------------------------------------------------------------------------------


# The pages on migration use the words of other products.
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent.name != "migrating"], ids=name_of
)
def test_pages_use_no_synonym_of_a_glossary_word(page: Path) -> None:
    for pattern, instead in SYNONYMS.items():
        found = re.search(pattern, prose(page), re.IGNORECASE)
        assert found is None, f"{name_of(page)}: {found[0]!r} where {instead!r} is meant"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page_lines_are_plain_text_of_100_columns(page: Path) -> None:
    for line in TEXTS[page].splitlines():
        assert line == line.rstrip(), line
        assert len(line) <= 100 or line.lstrip().startswith("|"), line
        assert not any(unicode in line for unicode in ("\u200b", "\u00a0", "\ufeff")), line


def test_glossary_is_sorted_and_defines_each_word_once() -> None:
    text = TEXTS[ROOT / "docs" / "glossary.md"]
    table = text.partition("## Words\n\n")[2].partition("\n\n")[0]
    words = [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()[2:]]
    key: Callable[[str], str] = str.casefold
    assert words == sorted(words, key=key)
    assert len(set(words)) == len(words)


def glossary_names(column: int) -> list[str]:
    """The identifiers of a column: 2 for C, 3 for Python."""
    text = TEXTS[ROOT / "docs" / "glossary.md"]
    table = text.partition("## Words\n\n")[2].partition("\n\n")[0]
    rows = [re.split(r"(?<!\\) ?\| ?", row.strip("|")) for row in table.splitlines()[2:]]
    assert {len(row) for row in rows} == {4}, "four columns"
    return [name for row in rows for name in SPAN.findall(row[column])]


def sources(*patterns: str) -> str:
    """The code of the package in files of these kinds, without comments of C."""
    files = [path for pattern in patterns for path in (ROOT / "commitlog").rglob(pattern)]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(files))
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def test_c_names_of_the_glossary_are_in_the_kernel() -> None:
    code = sources("*.h", "*.c")
    names = glossary_names(2)
    assert "cl_writer_claim" in names
    assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []


def test_python_names_of_the_glossary_are_defined() -> None:
    code = sources("*.py", "*.px[id]", "*.pyx")
    public = {**vars(commitlog), **vars(commitlog.keep), "bus": commitlog.bus}
    names = glossary_names(3)
    assert "CommitLog.claim" in names
    for name in names:
        owner, _, member = name.rpartition(".")
        if owner:
            assert member in dir(public[owner]) or member in public[owner].__annotations__, name
        else:
            definition = rf"^(?:cdef |cpdef )?\s*(?:class|def|(?:cp?def) [\w ]+) {name}\b"
            assert re.search(definition, code, re.MULTILINE), name
