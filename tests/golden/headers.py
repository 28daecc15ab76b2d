"""Make golden logs of records with headers: `python tests/golden/headers.py`.

The logs were made once, by the first code that knew headers, and are never made again;
`test_headers.py` reads them with today's code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import commitlog
from commitlog import TransientStorePool
from tests.golden.make import SEGMENT, pack

TARGET = Path(__file__).with_suffix(".tar.xz")
COUNT = 300


def rows() -> Iterator[tuple[bytes, bytes | None, dict[str, bytes]]]:
    """Yield value, key and headers of the records."""
    for number in range(COUNT):
        names = ("traceparent", "käse", "n" * 255)[: number % 4]
        headers = dict.fromkeys(names, b"%d" % number * (number % 50))
        yield b"%d" % number * (number % 90), b"k" if number % 2 else None, headers


def fill(log: commitlog.CommitLog) -> None:
    """Append the records, some of them of a producer, and the last third as lists."""
    given = list(rows())
    for number, (value, key, headers) in enumerate(given[: 2 * COUNT // 3]):
        of = {"producer": "till", "producer_sequence": number} if number % 5 == 0 else {}
        log.append(value, key=key, headers=headers, timestamp_ns=number, **of)  # type: ignore[arg-type]
    for first in range(2 * COUNT // 3, COUNT, 20):
        values, keys, headers = zip(*given[first : first + 20], strict=True)
        log.append_many(values, keys=keys, headers=headers, timestamp_ns=first)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with commitlog.open(folder / "mapped", segment_size=SEGMENT) as log:
            fill(log)
        with (
            TransientStorePool(buffers=2, buffer_size=SEGMENT, lock_memory="off") as pool,
            commitlog.open(folder / "pooled", segment_size=SEGMENT, pool=pool) as log,
        ):
            fill(log)
        pack(folder, TARGET)


if __name__ == "__main__":
    main()
