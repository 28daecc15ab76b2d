from typing_extensions import Buffer

class RowBuffers:
    def __init__(
        self,
        most: int,
        *,
        positions: Buffer | None = None,
        timestamps_us: Buffer | None = None,
        types: Buffer | None = None,
        value_ends: Buffer | None = None,
        values: Buffer | None = None,
        key_ends: Buffer | None = None,
        keys: Buffer | None = None,
        key_bits: Buffer | None = None,
    ) -> None: ...
    @property
    def most(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def passed(self) -> int: ...
    @property
    def values_size(self) -> int: ...
    @property
    def keys_size(self) -> int: ...

class PieceDecoder:
    def __init__(self, segment_id: int, base: int, size: int) -> None: ...
    def decode(self, data: Buffer, start: int, offset: int, first: int, limit: int, out: RowBuffers) -> tuple[int, int, int]: ...
    def resume(self, data: Buffer, start: int, offset: int, limit: int) -> int: ...
