"""Which names a tailer can have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from commitlog.errors import InvalidOptionError
from commitlog.tail import tailer_folder


@pytest.mark.parametrize("name", ["a", "billing", "Zähler", "b2", "a.b-c:d@e+f", "_", "x" * 128])
def test_names_that_a_tailer_can_have(name: str) -> None:
    assert tailer_folder.check_name(name) == name


def test_a_name_is_a_str_and_nothing_derived_from_one() -> None:
    """Which is what a column of names gives; the kernel takes a str alone."""
    assert type(tailer_folder.check_name(np.str_("billing"))) is str


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".hidden",
        "-x",
        "a/b",
        "../a",
        "a\0b",
        "a b",
        "a\n",
        "x" * 129,
        "ä" * 65,
        "\ud800",
        None,
        7,
        b"a",
    ],
)
def test_names_that_it_cannot_have_are_refused(name: Any) -> None:
    with pytest.raises(InvalidOptionError, match="name must be"):
        tailer_folder.check_name(name)
