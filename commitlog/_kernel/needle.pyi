import numpy as np
from numpy.typing import NDArray

def rows_with(data: NDArray[np.uint8], offsets: NDArray[np.int64], needle: bytes, rare: int = ...) -> NDArray[np.int64]: ...
