import numpy as np
from numpy.typing import NDArray

from commitlog._kernel.record_list import RecordList
from commitlog._kernel.row_columns import RowColumns
from commitlog._kernel.writer import Writer

class Engine(Writer):
    def append_list(self, records: RecordList) -> bool: ...
    def append_columns(
        self, parts: list[RowColumns], *, timestamp_ns: int | None = None, sync: bool | None = None
    ) -> NDArray[np.int64]: ...
