from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commitlog._kernel.claim import Claim
from commitlog._kernel.writer import ReadableBuffer

class LogMethods:
    def __init__(self, parts: Any) -> None: ...
    _parts: Any
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
    @property
    def path(self) -> str: ...
    @property
    def pooled(self) -> bool: ...
    @property
    def segment_size(self) -> int: ...
    @property
    def largest_value(self) -> int: ...
    @property
    def tail_position(self) -> int: ...
    @property
    def appended_position(self) -> int: ...
    @property
    def committed_position(self) -> int: ...
    @property
    def flushed_position(self) -> int: ...
