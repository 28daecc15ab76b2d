"""The page on reliability shows what the legs wrote, and all of it."""

from __future__ import annotations

from tests import reliability


def test_table_of_the_page_is_made_of_the_kept_figures() -> None:
    text = reliability.PAGE.read_text(encoding="utf-8")
    assert reliability.with_table(text) == text


def test_kept_figures_are_of_known_legs() -> None:
    known = reliability.read()
    assert known
    assert set(known) <= set(reliability.LEGS)


def test_each_leg_has_a_section_of_the_page() -> None:
    text = reliability.PAGE.read_text(encoding="utf-8").lower()
    for leg in reliability.LEGS:
        assert f"## {leg}\n" in text, leg
