"""Filters on values find what Python's `re` finds in each single value."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import commitlog
from commitlog.tail.batch import Batch
from commitlog.tools.cli.filter import Filter, compiled

# Values with common prefixes and suffixes: an expression may match across two adjacent values but
# match neither alone.
WORDS = [
    b"",
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"aab",
    b"a\nb",
    b"\n",
    b"ab\n",
    b"\xc3\xa9",
    b"\xc3",
    b"\xa9b",
    b"AB",
    b"x y",
]
PATTERNS = {
    "ab": b"ab",
    "^ab$": b"^ab$",
    "^$": b"^$",
    r"\bab\b": rb"\bab\b",
    "(?s)a.b": b"(?s)a.b",
    "(?i)ab": b"(?i)ab",
    "(?<!a)b": b"(?<!a)b",
    "[^]a]b": b"[^]a]b",
    r"[\]a]b": rb"[\]a]b",
    "x?": b"x?",
    "é": b"\xc3\xa9",
    "é+b": b"(?:\xc3\xa9)+b",
    r"\é?b": b"(?:\xc3\xa9)?b",
    "[ab]é": b"[ab]\xc3\xa9",
    "\udcc3": b"\xc3",
    "[\udcc3]": b"[\xc3]",
    r"\xc3": rb"\xc3",
}


def batch_of(values: list[bytes], path: Path) -> Batch:
    with commitlog.open(path, segment_size=1 << 20) as log:
        log.append_many(values)
        return log.tailer(start="first").read_batch()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """A batch with every word before and after every other."""
    values = [word for pair in itertools.product(WORDS, repeat=2) for word in pair]
    return batch_of(values, tmp_path_factory.mktemp("mixed") / "log")


@pytest.mark.parametrize("text", PATTERNS, ids=ascii)
def test_filter_matches_the_rows_that_re_matches(text: str, mixed: Batch) -> None:
    search = re.compile(PATTERNS[text]).search
    expected = [row for row, value in enumerate(mixed.values()) if search(value)]
    assert Filter([compiled(text)]).rows(mixed).tolist() == expected


@pytest.mark.parametrize(
    ("include", "exclude", "rows"),
    [
        ("ab", "", [0, 3]),
        ("ab", "c", [0]),
        ("", "ab", [4, 5]),
        ("", "", [0, 1, 2, 3, 4, 5]),
        ("abc", "c", []),
    ],
)
def test_all_includes_and_no_exclude_must_match(
    include: str, exclude: str, rows: list[int], tmp_path: Path
) -> None:
    batch = batch_of([b"ab", b"a", b"b", b"abc", b"", b"c"], tmp_path / "log")
    chosen = Filter(list(map(compiled, include)), list(map(compiled, exclude)))
    assert chosen.rows(batch).tolist() == rows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing )"),
        ("*", "nothing to repeat"),
        ("[", "unterminated character set"),
        ("[" * 100_000, "unterminated character set"),
        ("a{99999999999}", "repetition"),
        ("(" * 5000 + ")" * 5000, "nested too deeply"),
        ("[aé]", "write (?:a|é)"),
        ("(?P<é>a)", "bad character in group name"),
    ],
    ids=lambda given: ascii(given[:9]),
)
def test_invalid_expression_is_refused_with_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        compiled(text)
