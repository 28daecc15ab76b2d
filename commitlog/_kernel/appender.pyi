from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commitlog._kernel.claim import Claim
from commitlog._kernel.record_list import RecordList
from commitlog._kernel.row_columns import RowColumns
from commitlog._kernel.writer import ReadableBuffer, Writer

class Appender(Writer):
    def append_many(
        self,
        values: Iterable[ReadableBuffer],
        *,
        keys: Iterable[ReadableBuffer | None] | None = None,
        types: Iterable[int] | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> NDArray[np.int64]: ...
    def append_list(self, records: RecordList) -> bool: ...
    def append_array(self, rows: NDArray[Any], *, timestamp_ns: int | None = None, sync: bool | None = None) -> NDArray[np.int64]: ...
    def append_columns(
        self, parts: list[RowColumns], *, timestamp_ns: int | None = None, sync: bool | None = None
    ) -> NDArray[np.int64]: ...
    def claim(
        self,
        size: int,
        *,
        key: ReadableBuffer | None = None,
        type: int = 0,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
    ) -> Claim: ...
