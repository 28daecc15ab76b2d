"""The options: accepted values, rejected values with the option's name, and contradictions."""

from __future__ import annotations

import dataclasses
import math
import pickle
from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np
import pytest

from commitlog.base.roll_cycle import RollCycle
from commitlog.errors import InvalidOptionError
from commitlog.options import (
    BufferSource,
    OptionOverrides,
    Options,
    Tuning,
    new_segment_size,
    ready_wait_s,
)

MIB = 1 << 20
TUNING = {field.name for field in dataclasses.fields(Tuning)}
DURATIONS = {
    name
    for name in TUNING | {*get_type_hints(OptionOverrides)}
    if name.endswith(("_timeout", "_interval"))
}


@dataclass
class Pool:
    buffer_size: Any


def kept(name: str, value: Any) -> Any:
    """Return the stored value of the option when given `value`, which may have any type."""
    return getattr(
        Tuning(**{name: value}) if name in TUNING else Options.of(None, **{name: value}), name
    )


def test_defaults_of_options_and_tuning() -> None:
    assert dataclasses.asdict(Options()) == {
        "segment_size": None,
        "pool": None,
        "flush": "async",
        "sync_timeout": 5.0,
        "flush_interval": 0.5,
        "commit_interval": 0.2,
        "claim_timeout": 2.0,
        "timestamps": None,
        "roll_cycle": None,
        "prefault": True,
        "posting_lists": False,
        "wait_for_log": None,
        "on_lag": "wait",
        "lag_timeout": 30.0,
        "evict_after": None,
        "close_timeout": 60.0,
        "retention": None,
        "store": None,
        "replicate": None,
        "listener": None,
        "min_free_bytes": 0,
        "tuning": {
            "flush_least_pages": 4,
            "flush_thorough_interval": 10.0,
            "commit_least_pages": 4,
            "commit_thorough_interval": 0.2,
            "checkpoint_interval": 1.0,
            "allocate_ahead": None,
            "prefault_distance": None,
            "index_spacing": 256,
            "archive_cache": 1 << 30,
            "warn_free_bytes": None,
        },
    }


def test_every_option_is_documented_and_an_override() -> None:
    assert list(get_type_hints(OptionOverrides)) == [
        field.name for field in dataclasses.fields(Options)
    ]
    for kind in (Options, Tuning):
        for field in dataclasses.fields(kind):
            assert f"\n    {field.name} : " in (kind.__doc__ or "")


def test_options_normalize_their_values() -> None:
    options = Options(segment_size="1MiB", sync_timeout="250ms", close_timeout=3)
    assert (options.segment_size, options.sync_timeout, options.close_timeout) == (MIB, 0.25, 3.0)
    assert type(options.close_timeout) is float
    assert options == Options(segment_size=MIB, sync_timeout=0.25, close_timeout=3.0)
    assert hash(options) == hash(options.replace())


def test_tuning_normalizes_its_values() -> None:
    tuning = Tuning(prefault_distance="8MiB", flush_least_pages=np.int32(7))
    assert (tuning.prefault_distance, tuning.flush_least_pages) == (8 * MIB, 7)
    assert type(tuning.flush_least_pages) is int
    assert Options(tuning=tuning) == Options(
        tuning=Tuning(prefault_distance=8 * MIB, flush_least_pages=7)
    )
    assert hash(Options(tuning=tuning)) == hash(Options(tuning=tuning).replace())


@pytest.mark.parametrize("tuning", [None, {}, Tuning, 1])
def test_tuning_of_another_type_raises(tuning: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"^tuning must be a commitlog\.Tuning, not"):
        kept("tuning", tuning)


@pytest.mark.parametrize("name", sorted(TUNING))
def test_tuning_field_given_as_option_raises(name: str) -> None:
    with pytest.raises(
        InvalidOptionError,
        match=rf"^{name} is a field of Tuning: use tuning=commitlog\.Tuning\({name}=...\)",
    ):
        Options.of(None, **{name: 1})  # type: ignore[misc]


def test_options_are_frozen_and_keyword_only() -> None:
    options = Options()
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.flush = "sync"  # type: ignore[misc]
    with pytest.raises(InvalidOptionError, match="too many positional arguments"):
        Options("1MiB")  # type: ignore[call-arg]
    assert options == Options()


def test_options_can_be_pickled() -> None:
    options = Options(segment_size="1MiB", flush="sync", tuning=Tuning(allocate_ahead=2))
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("size", [64 << 10, (64 << 10) + 4096, 1 << 30])
def test_segment_size_within_bounds_is_accepted(size: int) -> None:
    assert Options(segment_size=size).segment_size == size


@pytest.mark.parametrize(
    "size",
    [
        0,
        4096,
        (64 << 10) - 4096,
        (64 << 10) + 1,
        (64 << 10) + 2048,
        (1 << 30) + 4096,
        "2GiB",
        "64KB",
    ],
)
def test_segment_size_out_of_bounds_raises(size: Any) -> None:
    with pytest.raises(
        InvalidOptionError,
        match=r"^segment_size must be from 65536 to 1073741824 bytes, a multiple of 4096, such as "
        "'64MiB', not",
    ):
        Options(segment_size=size)


@pytest.mark.parametrize("name", sorted(DURATIONS))
def test_wrong_duration_raises_naming_the_option(name: str) -> None:
    for value in (-1, math.nan, "soon", True, None):
        with pytest.raises(InvalidOptionError, match=f"^{name} must be"):
            kept(name, value)
    assert kept(name, "1500ms") == 1.5


@pytest.mark.parametrize("name", sorted(DURATIONS - {"lag_timeout"}))
def test_duration_below_one_millisecond_raises(name: str) -> None:
    assert kept(name, "1ms") == 0.001
    for value in (0, "999us"):
        with pytest.raises(InvalidOptionError, match=f"^{name} must be at least 0.001 seconds"):
            kept(name, value)


def test_waits_for_log_and_lag_accept_zero() -> None:
    assert Options(wait_for_log=0).wait_for_log == 0.0
    assert ready_wait_s(Options(wait_for_log=0)) == 0.0
    assert ready_wait_s(Options()) == 10.0
    assert Options(lag_timeout=0).lag_timeout == 0.0


@pytest.mark.parametrize(
    ("name", "most"),
    [("flush_least_pages", 262144), ("commit_least_pages", 262144), ("allocate_ahead", 8)],
)
def test_count_out_of_bounds_or_of_another_type_raises(name: str, most: int) -> None:
    for value in (0, most):
        assert kept(name, value) == value
    for refused in (-1, most + 1, 1.0, "4", True):
        with pytest.raises(
            InvalidOptionError, match=f"^{name} must be a whole number from 0 to {most}, not"
        ):
            kept(name, refused)


def test_count_may_be_none_where_it_follows_the_rate() -> None:
    assert kept("allocate_ahead", None) is None
    for name in ("flush_least_pages", "commit_least_pages"):
        with pytest.raises(InvalidOptionError, match=name):
            kept(name, None)


@pytest.mark.parametrize(
    ("name", "choices"),
    [("flush", ("sync", "async", "none")), ("timestamps", ("coarse", "precise"))],
)
def test_unknown_choice_raises(name: str, choices: tuple[str, ...]) -> None:
    for choice in choices:
        assert kept(name, choice) == choice
    for refused in ("", "SYNC", False, True, 3, b"sync", [choices[0]]):
        with pytest.raises(
            InvalidOptionError,
            match=f"^{name} must be one of 'sync', |^{name} must be one of 'coarse', ",
        ):
            kept(name, refused)


def test_none_means_default_for_timestamps_only() -> None:
    assert kept("timestamps", None) is None
    with pytest.raises(InvalidOptionError, match="^flush must be one of"):
        kept("flush", None)


def test_mistyped_choice_raises_suggesting_the_nearest() -> None:
    with pytest.raises(InvalidOptionError, match=r"not 'asynch' \(did you mean 'async'\?\)"):
        kept("flush", "asynch")


def test_switch_of_another_type_than_bool_raises() -> None:
    assert Options(prefault=False).prefault is False
    for refused in (0, 1, "yes", None):
        with pytest.raises(InvalidOptionError, match="^prefault must be True or False"):
            kept("prefault", refused)


@pytest.mark.parametrize("distance", [0, 4095, "9GiB"])
def test_prefault_distance_out_of_bounds_raises(distance: Any) -> None:
    with pytest.raises(InvalidOptionError, match="^prefault_distance must be from 4096 to"):
        Tuning(prefault_distance=distance)


def test_new_log_takes_segment_size_from_option_pool_or_default() -> None:
    assert new_segment_size(Options()) == 64 * MIB
    assert new_segment_size(Options(pool=Pool(MIB))) == MIB
    assert new_segment_size(Options(segment_size="2MiB")) == 2 * MIB
    assert new_segment_size(Options(segment_size="1MiB", pool=Pool(MIB))) == MIB


def test_segment_size_contradicting_pool_raises_naming_both() -> None:
    with pytest.raises(
        InvalidOptionError,
        match=r"segment_size \(2097152\) and pool\.buffer_size \(1048576\) contradict",
    ):
        Options(segment_size="2MiB", pool=Pool(MIB))
    with pytest.raises(InvalidOptionError, match="contradict"):
        Options.of(Options(segment_size="2MiB"), pool=Pool(MIB))


@pytest.mark.parametrize("pool", [5, "pool", Pool("1MiB"), Pool(None), object()])
def test_pool_of_another_type_raises(pool: Any) -> None:
    with pytest.raises(InvalidOptionError, match="^pool must be a TransientStorePool or None"):
        Options(pool=pool)


def test_pool_with_impossible_buffer_size_raises() -> None:
    pool: BufferSource = Pool(4096)
    with pytest.raises(InvalidOptionError, match=r"^pool\.buffer_size must be from 65536"):
        Options(pool=pool)


def test_of_accepts_options_none_and_overrides() -> None:
    base = Options(flush="sync", sync_timeout=1)
    assert Options.of(None) == Options()
    assert Options.of(base) == base
    assert Options.of(base, sync_timeout="2s") == Options(flush="sync", sync_timeout=2)
    assert base.sync_timeout == 1.0


@pytest.mark.parametrize("options", [{}, "sync", Options, 1])
def test_of_raises_for_another_type(options: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"^options must be a commitlog\.Options or None"):
        Options.of(options)


@pytest.mark.parametrize("period", [1e300, float("inf"), float("nan"), -1.0, 10**400])
def test_impossible_roll_cycle_raises(period: float) -> None:
    with pytest.raises(InvalidOptionError, match="^roll_cycle must be one of"):
        kept("roll_cycle", period)


def test_roll_cycle_given_as_text_is_that_cycle_in_utc() -> None:
    assert Options(roll_cycle="daily").roll_cycle == RollCycle("DAILY")
    cycle = RollCycle("DAILY", time_zone="Europe/Berlin")
    assert Options(roll_cycle=cycle).roll_cycle is cycle


def test_unknown_option_raises_suggesting_the_nearest() -> None:
    with pytest.raises(
        InvalidOptionError,
        match=r"there is no option 'segmentsize' \(did you mean 'segment_size'\?\)",
    ):
        kept("segmentsize", 1)
    with pytest.raises(
        InvalidOptionError,
        match=r"there is no option 'zzz'; the options are segment_size, pool, .*close_timeout",
    ):
        kept("zzz", 1)
