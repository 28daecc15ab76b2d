from typing import TypedDict

from typing_extensions import Buffer

SIZE: int

class DamagedPageError(ValueError): ...

class PageFields(TypedDict):
    position: int
    saved_ns: int
    required: bool
    max_lag_bytes: int
    created_ns: int
    evicted_ns: int
    owned_ns: int
    pid: int
    pid_namespace: int
    dropped: int

def new_page(log_uuid: bytes, position: int, now_ns: int) -> bytes: ...
def read_page(content: Buffer, log_uuid: bytes) -> PageFields: ...

class TailerPage:
    foreign: bool
    position: int
    dropped: int
    def __init__(self, fd: int, writable: bool) -> None: ...
    def content(self) -> bytes: ...
    def keep_durable(self, every_ns: int) -> None: ...
    def read_position(self) -> int | None: ...
    def save(self, position: int) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...
    def change_terms(
        self,
        log_uuid: bytes,
        *,
        required: bool | None = None,
        max_lag_bytes: int | None = None,
        evicted_ns: int | None = None,
        owner: tuple[int, int, int] | None = None,
    ) -> None: ...
    def terms(self, log_uuid: bytes) -> tuple[bool, int] | None: ...
    def count_dropped(self, records: int) -> None: ...
