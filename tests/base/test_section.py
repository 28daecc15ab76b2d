"""Sections: one thread at a time, and never the same thread twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from commitlog.base.section import Entry, Section


def entry_of(section: Section, timeout_s: float = -1) -> Entry:
    with section.entered(timeout_s) as entry:
        return entry


def test_section_tells_its_own_thread_that_it_is_nested() -> None:
    section = Section()
    with section.entered() as first:
        assert [entry_of(section), entry_of(section, 0)] == [Entry.NESTED] * 2
    assert [first, entry_of(section)] == [Entry.ENTERED] * 2


def test_section_tells_another_thread_that_it_is_late() -> None:
    section = Section()
    with ThreadPoolExecutor(1) as pool:
        with section.entered():
            assert pool.submit(entry_of, section, 0.001).result() is Entry.LATE
            waiting = pool.submit(entry_of, section, 60)
        assert waiting.result() is Entry.ENTERED


def test_section_is_free_after_an_error() -> None:
    section = Section()
    with pytest.raises(KeyError), section.entered():
        raise KeyError
    assert entry_of(section) is Entry.ENTERED
