"""Enum, datetime, string, sized bytes and array fields: what they take, give and refuse."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import enum
import pickle
import struct
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog import bus
from commitlog.errors import MessageError, MessageValueError, RecordTypeError


class Side(enum.Enum):
    BUY = 1
    SELL = 2


class Level(enum.IntEnum):
    LOW = -1
    HIGH = 300


class Permission(enum.Flag):
    READ = 1
    WRITE = 2


class Order(bus.Message, type=1):
    side: Annotated[Side, bus.uint8]
    level: Annotated[Level, bus.int16]
    permission: Annotated[Permission, bus.uint32]
    at: dt.datetime
    note: Annotated[str, 8]
    key: Annotated[bytes, bus.MaxLen(5)]
    digest: Annotated[bytes, 3]
    bids: Annotated[tuple[bus.float32, ...], 3]
    sizes: Annotated[tuple[bus.uint16, ...], 2]
    flags: Annotated[tuple[bool, ...], 2]


NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
ORDER = Order(
    Side.SELL, Level.HIGH, Permission.READ, NOON, "höh", b"k\0", b"abc", (0.5, 1, 2), (7, 8),
    (True, False),
)  # fmt: skip
# The bytes of ORDER, as logs hold them.
CONTENT = struct.pack(
    "<Bx h I q 8s H5s 3s2x 3f 2H 2?2x",
    *(2, 300, 1, int(NOON.timestamp()) * 10**9, b"h\xc3\xb6h", 2, b"k", b"abc"),
    *(0.5, 1, 2, 7, 8, True, False),
)


def field_values() -> st.SearchStrategy[tuple[Any, ...]]:
    """Values that the fields of an order give back as they are."""
    texts = st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8
    ).filter(lambda text: len(text.encode()) <= 8)
    times = st.datetimes(
        dt.datetime(1678, 1, 1),  # noqa: DTZ001  # `timezones` gives the zone
        dt.datetime(2262, 1, 1),  # noqa: DTZ001
        timezones=st.timezones(),
    ).map(lambda moment: moment.astimezone(dt.UTC))
    return st.tuples(
        st.sampled_from(Side),
        st.sampled_from(Level),
        st.integers(0, 3).map(Permission),
        times,
        texts,
        st.binary(max_size=5),
        st.binary(min_size=3, max_size=3),
        st.tuples(*[st.floats(width=32, allow_nan=False)] * 3),
        st.tuples(*[st.integers(0, 65535)] * 2),
        st.tuples(st.booleans(), st.booleans()),
    )


@given(field_values())
def test_each_kind_of_field_returns_the_value_it_was_set_to(values: tuple[Any, ...]) -> None:
    order = Order(*values)
    names = [field.name for field in Order.layout.fields]
    assert tuple(getattr(order, name) for name in names) == values
    assert [type(getattr(order, name)) for name in names] == [type(value) for value in values]
    for twin in (pickle.loads(pickle.dumps(order)), copy.deepcopy(order)):
        assert twin == order
        assert bytes(twin) == bytes(order)


@given(st.timezones())
def test_datetime_of_any_zone_comes_back_in_utc(zone: dt.tzinfo) -> None:
    order = copy.copy(ORDER)
    order.at = NOON.astimezone(zone)
    assert (order.at, order.at.tzinfo) == (NOON, dt.UTC)


@given(field_values())
def test_numpy_reads_the_same_values(values: tuple[Any, ...]) -> None:
    row = np.frombuffer(bytes(Order(*values)), Order.layout.dtype)[0]
    side, level, permission, at, note, key, digest, bids, sizes, flags = values
    assert (row["side"], row["level"], row["permission"]) == (
        side.value,
        level.value,
        permission.value,
    )
    assert row["at"] == np.datetime64(at.astimezone(dt.UTC).replace(tzinfo=None), "ns")
    assert row["note"].decode() == note
    assert bytes(row["key"]["content"])[: row["key"]["length"]] == key
    assert row["digest"].ljust(3, b"\0") == digest
    assert tuple(map(tuple, (row["bids"], row["sizes"], row["flags"]))) == (bids, sizes, flags)


def test_layout_of_each_kind_is_fixed() -> None:
    assert bytes(ORDER) == CONTENT
    assert Order.layout.size == len(CONTENT)


@pytest.mark.parametrize("length", range(6))
def test_sized_bytes_that_end_in_zeros_keep_their_length(length: int) -> None:
    order = Order.blank()
    order.key = b"12345"
    order.key = bytes(length)
    assert order.key == bytes(length)


def test_a_datetime_below_a_microsecond_is_rounded_down() -> None:
    class Moment(bus.Message, type=2, dtype=np.dtype([("at", "<M8[ns]"), ("ns", "<i8")])):
        pass

    message = Moment.blank()
    for since_ns in (1999, -1, 1 << 62, -(1 << 63), (1 << 63) - 1):
        np.frombuffer(memoryview(message), np.int64)[0] = since_ns
        assert message.at == dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
            microseconds=since_ns // 1000
        )


def test_a_dtype_has_arrays_and_datetimes() -> None:
    class Book(bus.Message, type=3, dtype=[("at", "<M8[ns]"), ("bids", "<f8", (2,))]):
        pass

    book = Book(NOON, np.array([1.5, 2.5]))
    assert (book.at, book.bids) == (NOON, (1.5, 2.5))
    assert Book.layout.dtype == np.dtype([("at", "<M8[ns]"), ("bids", "<f8", (2,))])


@pytest.mark.parametrize(
    ("name", "value", "error", "says"),
    [
        ("side", 1, RecordTypeError, "Order.side takes a Side, not 1"),
        ("side", Level.LOW, RecordTypeError, "Order.side takes a Side, not <Level.LOW: -1>"),
        ("at", NOON.replace(tzinfo=None), MessageValueError, "has no time zone; give an aware one"),
        ("at", dt.datetime.max.replace(tzinfo=dt.UTC), MessageValueError, "from 1678 to 2261"),
        ("at", 5, RecordTypeError, "Order.at takes a datetime, not 5"),
        ("note", "ä" * 5, MessageValueError, "Order.note: 'äääää' has 10 bytes of UTF-8, more"),
        ("note", "a\0", MessageValueError, "contains a NUL character"),
        ("note", "\ud800", MessageValueError, "cannot be encoded as UTF-8"),
        ("note", b"a", RecordTypeError, "Order.note takes a str, not b'a'"),
        (
            "key",
            b"123456",
            MessageValueError,
            "Order.key: b'123456' is longer than the field's 5 bytes",
        ),
        ("key", "1", RecordTypeError, "Order.key takes bytes, not '1'"),
        ("bids", (1.0, 2.0), MessageValueError, "Order.bids: .* has 2 items, not 3; give 3"),
        ("bids", 1.0, RecordTypeError, "Order.bids takes 3 items, not 1.0"),
        ("bids", b"123", RecordTypeError, "Order.bids takes 3 items"),
        ("bids", (9.0, 9.0, "x"), RecordTypeError, "Order.bids takes a float, not 'x'"),
        (
            "sizes",
            (9, 1 << 16),
            MessageValueError,
            "Order.sizes: 65536 is not in the range 0 to 65535",
        ),
    ],
)
def test_wrong_value_names_its_field_and_changes_nothing(
    name: str, value: Any, error: type[Exception], says: str
) -> None:
    order = copy.copy(ORDER)
    with pytest.raises(error, match=says):
        setattr(order, name, value)
    assert bytes(order) == CONTENT


@pytest.mark.parametrize(
    ("name", "content", "says", "shown"),
    [
        ("side", b"\x09", "Order.side: 9 is not a Side", r"side=<no uint8 Side: b'\t'>"),
        ("note", b"\xff", "Order.note: .* is not UTF-8", "note=<no str: b'\\xff"),
        (
            "key",
            b"\x06",
            "Order.key: the stored length is 6, more",
            "key=<no bytes up to 5: b'\\x06",
        ),
    ],
)
def test_foreign_bytes_are_refused_when_read_and_shown(
    name: str, content: bytes, says: str, shown: str
) -> None:
    order = copy.copy(ORDER)
    offset = next(field.offset for field in Order.layout.fields if field.name == name)
    memoryview(order)[offset : offset + 1] = content
    with pytest.raises(MessageValueError, match=says):
        getattr(order, name)
    assert shown in repr(order)


def test_hidden_field_is_left_out_of_the_repr() -> None:
    class Login(bus.Message, type=4):
        user: Annotated[str, 8]
        secret: Annotated[bytes, 2] = dataclasses.field(default=b"xy", repr=False)

    assert repr(Login("ann")).endswith("Login(user='ann')")


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (Side, "an enum needs the kind"),
        (Annotated[Side, bus.float64], "an enum needs the kind"),
        (Annotated[Side, 8], "an enum needs the kind"),
        (
            Annotated[Level, bus.uint8],
            r"Level\.LOW cannot be stored: Wrong\.field: -1 is not in the range",
        ),
        (Annotated[enum.Enum("Word", {"A": "a"}), bus.uint8], r"Word\.A cannot .* not 'a'"),
        (Annotated[str, 0], "size in bytes"),
        (Annotated[str, True], "size in bytes"),
        (Annotated[bytes, bus.MaxLen(0)], "MaxLen"),
        (Annotated[bytes, bus.MaxLen(65536)], "MaxLen"),
        (Annotated[str, bus.MaxLen(8)], "size in bytes"),
        (tuple[bus.int8, ...], "an array needs"),
        (Annotated[tuple[int, ...], 2], "an array needs"),
        (Annotated[tuple[bus.int8, bus.int8], 2], "an array needs"),
        (Annotated[tuple[bus.float64, ...], 1 << 18], "an array needs"),
        (dt.date, "not a kind"),
    ],
    ids=str,
)
def test_annotation_without_a_fixed_form_is_refused(annotation: Any, says: str) -> None:
    with pytest.raises(MessageError, match=says):
        type(bus.Message)(
            "Wrong",
            (bus.Message,),
            {"__annotations__": {"field": annotation}, "__module__": __name__},
            type=0,
        )
