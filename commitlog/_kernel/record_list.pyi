from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from commitlog._kernel.writer import ReadableBuffer, Writer

class RecordList:
    def __init__(
        self,
        log: Writer,
        values: Iterable[ReadableBuffer],
        keys: Iterable[ReadableBuffer | None] | None,
        types: Iterable[int] | None,
        timestamp_ns: int | None,
    ) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def positions(self) -> NDArray[np.int64]: ...
