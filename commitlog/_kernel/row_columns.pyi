import numpy as np
from numpy.typing import NDArray

class RowColumns:
    def __init__(
        self,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        *,
        keys: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]] | None = None,
        types: NDArray[np.uint32] | None = None,
        timestamps_ns: NDArray[np.int64] | None = None,
    ) -> None: ...
    @property
    def count(self) -> int: ...
