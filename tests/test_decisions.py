"""Each decision has a date and a state, and is on a page that the index lists."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "docs/decisions"
PAGES = sorted(set(FOLDER.glob("*.md")) - {FOLDER / "index.md"})
STATE = re.compile(
    r"(\d{4}-\d\d-\d\d) · (?:holds|withdrawn (\d{4}-\d\d-\d\d)"
    r"|replaced (\d{4}-\d\d-\d\d) by\s\[[^\]]+\]\((?:\w+\.md)?#[\w-]+\))"
)


def decisions(page: Path) -> list[tuple[str, str, str]]:
    """Return title, state and text of each decision of a page."""
    parts = re.split(r"^## (.+)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = []
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        state, _, text = body.strip().partition("\n\n")
        found.append((title, state, text))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_decision_has_a_date_and_a_state(page: Path) -> None:
    assert decisions(page)
    for title, state, text in decisions(page):
        match = STATE.fullmatch(state)
        assert match, f"{title}: {state!r} is not like `2027-01-31 · holds`: see index.md"
        days = [dt.date.fromisoformat(day) for day in match.groups() if day]
        assert days == sorted(days), title
        assert text, title


def test_index_lists_each_page_of_decisions() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[[^\]]+\]\(([\w.]+)\) \|", index, re.MULTILINE)
    assert sorted(listed) == [page.name for page in PAGES]


def test_index_of_decisions_names_existing_packages() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`commitlog/(\w+)/`", index))
    package = FOLDER.parents[1] / "commitlog"
    assert named <= {path.parent.name for path in package.glob("*/__init__.py")}


def test_titles_of_decisions_are_unique() -> None:
    titles = [title for page in PAGES for title, _, _ in decisions(page)]
    assert len(set(titles)) == len(titles)
