from collections.abc import Iterable
from types import TracebackType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from commitlog._kernel.core import Core

# What is taken for bytes: whatever offers the buffer protocol, contiguous. Known to type checkers only: import it under TYPE_CHECKING.
# An array is named apart, because before Python 3.12 numpy's own stubs do not say that it is a buffer.
ReadableBuffer: TypeAlias = Buffer | NDArray[Any]

class Writer(Core):
    def setup_writer(self, *, precise: bool, wake_bytes: int, sync: bool, sync_timeout: float) -> None: ...
    def drop_segment(self) -> None: ...
    def writer_counters(self) -> dict[str, int]: ...
    @property
    def largest_value(self) -> int: ...
    def roll_from(self, number: int) -> None: ...
    def move_tail(self, number: int, now_ns: int) -> None: ...
    def close_segment(self) -> None: ...
    def check_claims(self, below: int) -> None: ...
    def adopt(self) -> None: ...
    def roll_soon(self) -> None: ...
    def append(
        self,
        value: ReadableBuffer,
        *,
        key: ReadableBuffer | None = None,
        type: int = 0,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> int: ...
    def append_many(
        self,
        values: Iterable[ReadableBuffer],
        *,
        keys: Iterable[ReadableBuffer | None] | None = None,
        types: Iterable[int] | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> NDArray[np.int64]: ...
    def append_array(self, rows: NDArray[Any], *, timestamp_ns: int | None = None, sync: bool | None = None) -> NDArray[np.int64]: ...
    def claim(
        self,
        size: int,
        *,
        key: ReadableBuffer | None = None,
        type: int = 0,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> Claim: ...

class Claim:
    @property
    def position(self) -> int: ...
    @property
    def buffer(self) -> memoryview: ...
    def truncate(self, size: int) -> None: ...
    def __enter__(self) -> Claim: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> Literal[False]: ...
