from __future__ import annotations

from typing import Any

import pytest

from commitlog.errors import InvalidOptionError
from commitlog.pool import TransientStorePool
from commitlog.pool.pool_options import PoolOptions


def checked(**options: Any) -> PoolOptions:
    return PoolOptions(**options)


def test_sizes_and_durations_become_bytes_and_seconds() -> None:
    options = checked(buffer_size="128KiB", wait_timeout="500ms")
    assert (options.buffer_size, options.wait_timeout) == (131072, 0.5)


@pytest.mark.parametrize("size", [64 << 10, (64 << 10) + 4096, "1GiB"])
def test_buffer_size_at_the_bounds_is_accepted(size: Any) -> None:
    assert checked(buffer_size=size).buffer_size % 4096 == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[
            ("buffer_size", size)
            for size in (
                0,
                -1,
                65535,
                65536 + 2048,
                (1 << 30) + 4096,
                "2GiB",
                "much",
                None,
                1.5,
                True,
            )
        ],
        *[("buffers", count) for count in (0, -1, 65537, 1.0, "5", None, True)],
        *[("backing", kind) for kind in ("file", "", None, ["shm"])],
        *[("lock_memory", choice) for choice in ("yes", True, None)],
        *[("on_exhausted", choice) for choice in ("fail", None)],
        *[("wait_timeout", time) for time in (-1, "soon", float("nan"), None, True)],
        *[("low_water", share) for share in (-0.1, 1, 1.5, float("nan"), "0.4", None, True)],
    ],
)
def test_invalid_pool_option_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=name):
        checked(**{name: value})
    with pytest.raises(InvalidOptionError, match=name):
        TransientStorePool(**{"lock_memory": "off", name: value})


def test_max_buffers_defaults_to_twice_the_buffers() -> None:
    assert checked(on_exhausted="grow").most_buffers == 10
    assert checked(on_exhausted="grow", max_buffers=5).most_buffers == 5
    assert checked().most_buffers == 5
    for most in (0, True, "6"):
        with pytest.raises(InvalidOptionError, match="max_buffers"):
            checked(on_exhausted="grow", max_buffers=most)
