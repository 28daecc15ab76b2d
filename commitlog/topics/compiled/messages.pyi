import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from enum import Enum
from types import GenericAlias, TracebackType
from typing import Any, Generic, Literal, Self, overload

from typing_extensions import Buffer, TypeVar

from commitlog._kernel.engine import Claim, LogMethods, ReadableBuffer
from commitlog._kernel.readers import Idle, ReadMethods
from commitlog.base.units import Duration

KINDS: dict[str, tuple[int, int]]

_Kind = TypeVar("_Kind", bound=MessageBytes)

class Shape:
    def __init__(self, name: str, type: int, size: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> int: ...
    @property
    def size(self) -> int: ...

class Field:
    def __init__(self, owner: str, name: str, kind: str, offset: int, length: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def length(self) -> int: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> Field: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None, /) -> Any: ...
    def __set__(self, instance: object, value: Any, /) -> None: ...

class EnumField(Field):
    members: type[Enum]
    def __init__(
        self, owner: str, name: str, kind: str, offset: int, length: int, members: type[Enum]
    ) -> None: ...

class DatetimeField(Field):
    def __init__(self, owner: str, name: str, offset: int) -> None: ...

class TextField(Field):
    def __init__(self, owner: str, name: str, offset: int, length: int) -> None: ...

class SizedBytesField(Field):
    def __init__(self, owner: str, name: str, offset: int, longest: int) -> None: ...

class ArrayField(Field):
    def __init__(self, owner: str, name: str, kind: str, offset: int, count: int) -> None: ...

class MessageBytes:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __bytes__(self) -> bytes: ...

def message_from(kind: type[_Kind], content: bytes) -> _Kind: ...

_Message = TypeVar("_Message", bound=MessageBytes)

class MessageClaim(Generic[_Message]):
    @property
    def position(self) -> int: ...
    def __enter__(self) -> _Message: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Literal[False]: ...

class MessageWriter:
    def __init__(self, target: LogMethods) -> None: ...
    @overload
    def write(self, message: MessageBytes, *, sync: bool | None = None) -> int: ...
    @overload
    def write(
        self, message: ReadableBuffer, *, type: int | None = None, sync: bool | None = None
    ) -> int: ...
    @overload
    def claim(
        self, what: type[_Message], *, sync: bool | None = None
    ) -> MessageClaim[_Message]: ...
    @overload
    def claim(self, what: int, *, type: int | None = None, sync: bool | None = None) -> Claim: ...

Given = TypeVar("Given", bound=MessageBytes | bytes, default=bytes)

class MessageIterator(Generic[Given]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> Given: ...

class MessageReader(Generic[Given]):
    def __init__(
        self,
        tailer: ReadMethods,
        end: int,
        idle: Idle,
        classes: Iterable[builtins.type[Given]] | None = None,
    ) -> None: ...
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
    def __iter__(self) -> Iterator[Given]: ...
    def follow(
        self, timeout: Duration | None = None, idle: Idle | None = None
    ) -> Iterator[Given]: ...
    def next(self, timeout: Duration | None = 0, idle: Idle | None = None) -> bool: ...
    @property
    def type(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def timestamp_ns(self) -> int: ...
    @property
    def has_recovered(self) -> bool: ...
    @overload
    def read(self, into: None = None) -> bytes: ...
    @overload
    def read(self, into: builtins.type[_Message]) -> _Message: ...
    @overload
    # A message is a buffer, and is refilled as a message.
    def read(self, into: _Message) -> _Message: ...  # type: ignore[overload-overlap]
    @overload
    def read(self, into: Buffer) -> int: ...
    def let_go(self) -> None: ...

class LastAppend:
    position: int

class DeclaredSegment:
    end: int
    far_end: int

_Item = TypeVar("_Item")

class MessageScreen:
    def __init__(
        self,
        check: Callable[[Any, bytes], object],
        *,
        walks: bool,
        only_null: bool,
        takes_any_float: bool,
        is_open: bool,
        classes: dict[Any, tuple[str, ...] | None],
        leaves: frozenset[Any],
        names: frozenset[str] | None = None,
    ) -> None: ...
    def screen(self, message: Any, value: bytes) -> None: ...

class TopicWriter(Generic[_Item]):
    def __init__(
        self,
        target: LogMethods,
        message_class: builtins.type[_Item] | None,
        encode: Callable[[_Item], bytes],
        screen: MessageScreen | None,
        pipe: Any,
        type: int | None,
        last: LastAppend,
        declared: DeclaredSegment,
        handled: ContextVar[Any],
    ) -> None: ...
    @classmethod
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
    def append(
        self,
        message: _Item,
        *,
        key: bytes | bytearray | None = None,
        timestamp_ns: int | None = None,
        sync: bool | None = None,
        expect: int | None = None,
        producer: str | None = None,
        producer_sequence: int | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> int: ...

def lengths_of(items: Iterable[Any]) -> tuple[int, int]: ...
