"""`commitlog spark`: sizes are parsed before Spark starts."""

from __future__ import annotations

import pytest

from commitlog import cli


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["export", "log", "out", "--step"], "--step"),
        (["compact", "log", "new", "--segment-size"], "--segment-size"),
    ],
)
@pytest.mark.parametrize("size", ["much", "-1", "\u00b2", "\u0665"])
def test_bad_size_is_refused_before_spark_starts(
    arguments: list[str], option: str, size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["spark", *arguments, size]) == cli.USAGE
    assert (
        f"{option}': expected a size such as 65536, 64K or 64MiB, not {size!r}"
        in capsys.readouterr().err
    )
