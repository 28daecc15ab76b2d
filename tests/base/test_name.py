"""Names that a tailer and a topic can have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from commitlog.base.name import check_name
from commitlog.errors import InvalidOptionError


@pytest.mark.parametrize("name", ["a", "billing", "Zähler", "b2", "a.b-c:d@e+f", "_", "x" * 128])
def test_valid_tailer_name_is_accepted(name: str) -> None:
    assert check_name(name) == name


def test_tailer_name_of_a_str_subclass_becomes_str() -> None:
    """A column of names holds numpy.str_; the kernel takes only str."""
    assert type(check_name(np.str_("billing"))) is str


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
def test_invalid_tailer_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidOptionError, match="name must be"):
        check_name(name)
