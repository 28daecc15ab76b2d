"""Arguments that a class of options does not take."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import Options, Retention, RollCycle, Store, TransientStorePool, Tuning
from commitlog.errors import InvalidOptionError

UNKNOWN: list[tuple[Callable[..., Any], str, str]] = [
    (Options, "segmentsize", "segment_size"),
    (Tuning, "index_space", "index_spacing"),
    (Retention, "maxage", "max_age"),
    (Store, "levle", "level"),
    (RollCycle, "epoc", "epoch"),
    (TransientStorePool, "buffer", "buffers"),
]


@pytest.mark.wing
def test_unknown_option_of_a_wing_is_refused() -> None:
    from commitlog.replication import Replication
    from commitlog.topics import Zstd

    test_unknown_option_is_refused_with_a_similar_one(Replication, "requires", "require")
    test_unknown_option_is_refused_with_a_similar_one(Zstd, "levels", "level")


@pytest.mark.parametrize(("made", "name", "similar"), UNKNOWN)
def test_unknown_option_is_refused_with_a_similar_one(
    made: Callable[..., Any], name: str, similar: str
) -> None:
    with pytest.raises(InvalidOptionError, match=f"{name!r} .did you mean {similar!r}"):
        made(**{name: 1})
    with pytest.raises(InvalidOptionError, match=r"there is no option 'qqq'; the options are"):
        made(qqq=1)


def test_unknown_option_of_open_is_refused_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="did you mean 'segment_size'"):
        commitlog.open(tmp_path / "log", segmentsize=1 << 20)  # type: ignore[call-arg]
    assert not (tmp_path / "log").exists()


def test_field_of_tuning_is_refused_by_options_with_its_place() -> None:
    with pytest.raises(InvalidOptionError, match=r"use tuning=commitlog.Tuning\(index_spacing="):
        Options(index_spacing=64)  # type: ignore[call-arg]


@pytest.mark.parametrize("made", [Options, Tuning, Retention, TransientStorePool])
def test_positional_argument_is_refused(made: Callable[..., Any]) -> None:
    with pytest.raises(InvalidOptionError, match="too many positional arguments"):
        made(1)


def test_missing_argument_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="missing a required argument: 'target'"):
        Store()  # type: ignore[call-arg]


def test_options_are_copied_and_pickled_as_before() -> None:
    options = Options(segment_size="1MiB", tuning=Tuning(index_spacing=64))
    assert dataclasses.replace(options, flush="sync").flush == "sync"
    assert pickle.loads(pickle.dumps(options)) == options
