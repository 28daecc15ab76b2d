"""Tables of HTML for notebooks."""

from __future__ import annotations

from commitlog.base.html import fields_table, rows_table


def test_each_text_is_escaped() -> None:
    shown = fields_table("<a>", {"<b>": "<c>"}) + rows_table("<d>", ["<e>"], [["<f>"]])
    assert all(f"&lt;{letter}&gt;" in shown for letter in "abcdef")
    assert not any(f"<{letter}>" in shown for letter in "acdef")


def test_numbers_have_separators_and_switches_none() -> None:
    shown = rows_table("", ["number", "switch"], [[1234567, True]])
    assert "<td>1,234,567</td><td>True</td>" in shown
