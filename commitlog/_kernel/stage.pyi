from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

class Frames:
    def __init__(self, segment_id: int, size: int, room: int) -> None: ...
    @property
    def start(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def tally(self) -> tuple[int, int, int, int, int]: ...
    def lay(
        self,
        values: Array | None,
        value_offsets: Array,
        keys: Array | None,
        key_offsets: Array | None,
        keyed: Array | None,
        types: Array | None,
        timestamps_ns: Array | None,
        timestamp_ns: int,
        first: int,
    ) -> tuple[int, bool]: ...
    def piece(self) -> memoryview: ...
    def advance(self) -> None: ...
    def closing(self) -> bytes: ...
