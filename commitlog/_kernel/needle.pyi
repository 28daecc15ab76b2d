import numpy as np
from numpy.typing import NDArray

RUN_MOST: int

def rows_with(data: NDArray[np.uint8], offsets: NDArray[np.int64], needle: bytes, rare: int = ...) -> NDArray[np.int64]: ...
def rows_with_run(data: NDArray[np.uint8], offsets: NDArray[np.int64], kinds: list[bytes]) -> NDArray[np.int64]: ...
