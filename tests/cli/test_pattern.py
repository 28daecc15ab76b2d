"""What a pattern finds in the values of a batch, many at once or one by one: the same as Python's `re` in each value alone."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path

import numpy as np
import pytest

import commitlog
from commitlog._kernel.needle import rows_with, rows_with_run
from commitlog.cli.filter import Filter
from commitlog.cli.literals import needles
from commitlog.cli.pattern import Pattern
from commitlog.cli.runs import run_of
from commitlog.tail.batch import Batch

# Values that share beginnings and ends, so that one of them and the next hold what neither holds alone.
WORDS = [b"", b"a", b"b", b"ab", b"ba", b"aab", b"abab", b"a\nb", b"\n", b"ab\n", b"\xc3\xa9", b"\xc3", b"\xa9b", b"AB", b"x y", b"abc" * 9]
PATTERNS = (
    "ab",
    "aab|ba",
    "^ab",
    "ab$",
    "^$",
    "^a",
    r"\Aab\Z",
    r"ab\Z",
    r"\bab\b",
    r"\Bb",
    "(?m)^b",
    "(?m)a$",
    "(?s)a.b",
    "a.b",
    "a.*b",
    "(?s)a.*b",
    "[^a]b",
    "[^x]*",
    "x?",
    "(?=ab)a",
    "(?<!a)b",
    "(?<=a)b",
    "a(?!b)",
    "(a)b\\1",
    "(?:ab){2}",
    "(ab)+c",
    "(?i)ab",
    "(?i:a)b",
    "a++b",
    "(?>aab|a)b",
    "[0-9]",
    "a|b",
    "é",
    "é+b",
    "\\xc3",
    "(?:abc){3}",
    "(?P<one>a)(?P=one)b",
    "ab?c",
    "(?:a|ab)(?:c|bcd|b)",
    "\n",
    "a{2}b",
    "[ab]{2}",
    "[ab]{2,}",
    "[ab]+[\\n]",
    "[ab]([ab]{2,})[^a]",
    "[ab](?:[ab]{2,3})+[^a]",
    "^[ab][^b]+",
    "[ab]{2}$",
    "(?i)[ab]{3}",
    "[ab]?[ab][^ab]",
    "[A-Z]+|[x-z]+ [x-z]",
    "[^a-z][A-B]",
    "[abc]{26}",
    "[abc]{65}",
    "[abc]{2,65}[abc]",
    ".[ab]",
    "(?s).[\\x80-\\xff]",
    "[ab](?=[b])",
    "(?:[ab]|x)[b]",
)


def batch_of(values: list[bytes], path: Path) -> Batch:
    """As a tailer reads them."""
    with commitlog.open(path, segment_size=1 << 20) as log:
        log.append_many(values)
    with commitlog.open(path, "r") as log, log.tailer() as tailer:
        return tailer.read_batch()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """Every word before and behind every other."""
    values = [word for pair in itertools.product(WORDS, repeat=2) for word in pair]
    return batch_of(values, tmp_path_factory.mktemp("mixed") / "log")


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """The same words, rare among others, so that they are looked for in all values at once."""
    chance = random.Random(5)
    values = [chance.choice(WORDS) if number % 61 == 0 else b"-" * chance.randrange(9) for number in range(20_000)]
    return batch_of(values, tmp_path_factory.mktemp("sparse") / "log")


@pytest.mark.parametrize("text", PATTERNS, ids=ascii)
def test_the_rows_are_those_in_which_re_finds_something(text: str, mixed: Batch, sparse: Batch) -> None:
    search = re.compile(text.replace("é+", "(?:é)+").encode()).search
    for batch in (mixed, sparse):
        expected = [row for row, value in enumerate(batch.values()) if search(value)]
        assert Pattern(text).rows(batch).tolist() == expected


@pytest.mark.parametrize(
    ("text", "choices", "exact"),
    [
        ("ERROR", [{b"ERROR"}], True),
        ("(E)RR(O(R))", [{b"ERROR"}], True),
        ("^ERROR$", [{b"ERROR"}], False),
        ("WARN|ERROR", [{b"ERROR", b"WARN"}], False),
        ("took [0-9]+ms", [{b"took "}, {b"ms"}], False),
        ("(?i)Error", [{b"error"}], True),
        ("(?i:e)rror", [{b"rror"}], False),
        ("(?:ab)+c", [{b"abc"}, {b"ab"}, {b"ab"}], False),
        ("(?:timeout)?", None, False),
        ("[0-9]{4}", None, False),
        ("é", [{"é".encode()}], True),
    ],
)
def test_what_a_match_cannot_be_without_is_known(text: str, choices: list[set[bytes]] | None, exact: bool) -> None:
    """Without it every search would be correct still, and slow."""
    found = needles(Pattern(text)._compiled)
    assert (None if found is None else ([set(texts) for texts in found.choices], found.exact)) == (
        None if choices is None else (choices, exact)
    )


@pytest.mark.parametrize("rare", [-1, 0, 1, 2])
def test_bytes_are_found_in_values_and_not_across_them(mixed: Batch, rare: int) -> None:
    for needle in (b"aab", b"bab", b"abc", b"\nab", b"-b-"):
        expected = [row for row, value in enumerate(mixed.values()) if needle in value]
        assert rows_with(mixed.data, mixed.offsets, needle, rare).tolist() == expected
    nothing = np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    assert rows_with(*nothing, b"aab", rare).tolist() == []


@pytest.mark.parametrize(("needle", "rare", "offsets"), [(b"", -1, [0, 1]), (b"a", 1, [0, 1]), (b"a", -2, [0, 1]), (b"a", 0, [0, 9])])
def test_what_could_lead_beyond_the_values_is_refused(needle: bytes, rare: int, offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="needle|offsets"):
        rows_with(np.zeros(1, dtype=np.uint8), np.array(offsets), needle, rare)


@pytest.mark.parametrize(
    ("text", "sizes", "exact"),
    [
        ("[0-9]{9}", [10] * 9, True),
        (r"\d+", [10], True),
        (r"^\d{4}-\d+ [A-Z]", [10, 10, 10, 10, 1, 10], False),
        ("(?:[ab]{2})+[c-e]", [2, 2, 3], False),
        ("(?i)[a-c][^0]", [6, 255], True),
        ("[0-9]{99}", [10] * 64, False),
        ("(([0-9]{64}){64}){64}", [10] * 64, False),
        ("[^x]*", None, False),
        (".", None, False),
        ("(?=[0-9])", None, False),
    ],
)
def test_what_kinds_of_bytes_a_match_cannot_be_without_is_known(text: str, sizes: list[int] | None, exact: bool) -> None:
    found = run_of(Pattern(text)._compiled)
    assert (None if found is None else ([len(kind) for kind in found.kinds], found.exact)) == (None if sizes is None else (sizes, exact))


@pytest.mark.parametrize("length", [1, 2, 63, 64])
def test_runs_are_found_in_values_and_not_across_them(length: int) -> None:
    chance = random.Random(length)
    values = [bytes(chance.choices(b"ab", k=chance.randrange(3 * length))) for _ in range(300)]
    data, offsets = np.frombuffer(b"".join(values), dtype=np.uint8), np.cumsum([0, *map(len, values)])
    for _ in range(30):
        kinds = [chance.choice([b"a", b"b", b"ab", b"ab"]) for _ in range(length)]
        search = re.compile(b"".join(b"[" + kind + b"]" for kind in kinds)).search
        assert rows_with_run(data, offsets, kinds).tolist() == [row for row, value in enumerate(values) if search(value)]


@pytest.mark.parametrize("length", [0, 65])
def test_a_run_that_does_not_fit_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="1 to 64"):
        rows_with_run(np.zeros(1, dtype=np.uint8), np.array([0, 1]), [b"a"] * length)


def test_every_include_has_to_match_and_no_exclude_may(tmp_path: Path) -> None:
    batch = batch_of([b"ab", b"a", b"b", b"abc", b"", b"c"], tmp_path / "log")

    def rows(include: str, exclude: str) -> list[int]:
        chosen: list[int] = Filter([Pattern(text) for text in include], [Pattern(text) for text in exclude]).rows(batch).tolist()
        return chosen

    assert rows("ab", "") == [0, 3]
    assert rows("ab", "c") == [0]
    assert rows("", "ab") == [4, 5]
    assert rows("", "") == [0, 1, 2, 3, 4, 5]
    assert rows("abc", "c") == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("(", "missing )"),
        ("*", "nothing to repeat"),
        ("[", "unterminated character set"),
        ("a{99999999999}", "repetition"),
        ("(" * 5000 + ")" * 5000, "nested too deeply"),
        ("[aé]", "write (?:a|é)"),
        ("(?P<é>a)", "bad character in group name"),
    ],
    ids=lambda given: ascii(given[:9]),
)
def test_what_is_no_expression_is_refused(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        Pattern(text)
