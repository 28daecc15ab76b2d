"""Message classes: the layout of their fields, accepted values, and invalid classes."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import struct
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog import bus
from commitlog.errors import ClaimError, MessageError, MessageValueError, RecordTypeError

QUOTES = np.dtype([("price", "<f8"), ("symbol", "S3"), ("count", "<u2")])


class Everything(bus.Message, type=4294967295):
    version: ClassVar[int] = 3
    flag: bool
    int8: bus.int8
    int16: bus.int16
    int32: bus.int32
    int64: bus.int64
    uint8: bus.uint8
    uint16: bus.uint16
    uint32: bus.uint32
    uint64: bus.uint64
    float32: bus.float32
    float64: bus.float64
    octets: Annotated[bytes, 5]
    last: bus.uint8 = 9


class Quote(bus.Message, type=7, dtype=QUOTES):
    pass


def test_field_offsets_are_those_of_a_c_struct() -> None:
    dtype = np.dtype(
        [
            (field.name, f"S{field.length}" if field.kind == "bytes" else field.kind)
            for field in Everything.layout.fields
        ],
        align=True,
    )
    assert {field.name: field.offset for field in Everything.layout.fields} == {
        name: dtype.fields[name][1] for name in dtype.names
    }  # type: ignore[index, union-attr]
    assert Everything.layout.size == dtype.itemsize
    assert Everything.layout.dtype.fields == dtype.fields
    assert all(
        field.offset % field.length == 0
        for field in Everything.layout.fields
        if field.kind != "bytes"
    )


def test_layout_prints_as_a_table() -> None:
    assert str(Quote.layout).splitlines() == [
        "Quote: type 7, 13 bytes, little-endian",
        "  offset  bytes  kind     field",
        "       0      8  float64  price",
        "       8      3  bytes    symbol",
        "      11      2  uint16   count",
    ]


def ints(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    return (
        st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if signed
        else st.integers(0, (1 << bits) - 1)
    )


@given(
    st.tuples(
        st.booleans(),
        *(ints(bits, signed=True) for bits in (8, 16, 32, 64)),
        *(ints(bits, signed=False) for bits in (8, 16, 32, 64)),
        st.floats(width=32, allow_nan=False),
        st.floats(allow_nan=False),
        st.binary(min_size=5, max_size=5),
        ints(8, signed=False),
    )
)
def test_fields_read_back_and_equal_those_of_numpy(values: tuple[Any, ...]) -> None:
    message = Everything(*values)
    assert dataclasses.astuple(message) == values
    row = np.frombuffer(bytes(message), Everything.layout.dtype)[0]
    for name, value in zip(Everything.layout.dtype.names or (), values, strict=True):
        assert row[name] == (value.rstrip(b"\0") if isinstance(value, bytes) else value)


@pytest.mark.parametrize(
    ("name", "least", "largest"),
    [(f"int{bits}", -(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)]
    + [(f"uint{bits}", 0, (1 << bits) - 1) for bits in (8, 16, 32, 64)],
)
def test_number_out_of_range_is_refused_and_keeps_message(
    name: str, least: int, largest: int
) -> None:
    message = Everything.blank()
    for value in (least, largest, np.int16(5)):
        setattr(message, name, value)
        assert getattr(message, name) == value
    before = bytes(message)
    for value in (least - 1, largest + 1, 1 << 70, -(1 << 70)):
        with pytest.raises(
            MessageValueError, match=f"{name}: .* is not in the range {least} to {largest}"
        ):
            setattr(message, name, value)
    for wrong in (1.5, "1", None, b"1"):
        with pytest.raises(RecordTypeError, match=f"{name} takes an int"):
            setattr(message, name, wrong)
    assert bytes(message) == before


def test_value_that_does_not_fit_its_field_is_refused() -> None:
    message = Everything.blank()
    for name, value, error in (
        ("float32", 1e39, MessageValueError),
        ("float64", 1 << 1100, MessageValueError),
        ("float64", "1", RecordTypeError),
        ("octets", b"123456", MessageValueError),
        ("octets", "12345", RecordTypeError),
        ("octets", 5, RecordTypeError),
        ("flag", 1, RecordTypeError),
        ("flag", "no", RecordTypeError),
    ):
        with pytest.raises(error, match=name):
            setattr(message, name, value)
    assert bytes(message) == bytes(Everything.layout.size)
    message.float32 = float("inf")
    assert message.float32 == float("inf")


def test_short_bytes_are_padded_with_zeros() -> None:
    message = Everything.blank()
    message.octets = b"12345"
    message.octets = bytearray(b"ab")  # type: ignore[assignment]
    assert message.octets == b"ab\0\0\0"


def test_unknown_field_raises_attribute_error() -> None:
    with pytest.raises(AttributeError):
        Everything.blank().int_32 = 3  # type: ignore[attr-defined]


def test_message_is_a_dataclass_that_copies_and_pickles() -> None:
    quote = Quote(1.5, b"EUR", 3)
    assert repr(quote) == "Quote(price=1.5, symbol=b'EUR', count=3)"
    assert [field.name for field in dataclasses.fields(quote)] == ["price", "symbol", "count"]
    for twin in (
        copy.copy(quote),
        copy.deepcopy(quote),
        pickle.loads(pickle.dumps(quote)),
        dataclasses.replace(quote),
    ):
        assert (twin, type(twin)) == (quote, Quote)
        twin.count = 4
        assert quote.count == 3
    assert Everything.blank().last == 0
    assert Everything(True, *range(10), b"").last == 9


def test_buffer_of_a_message_shares_its_bytes() -> None:
    quote = Quote(1.5, b"EUR", 3)
    view = memoryview(quote)
    rows = np.frombuffer(view, QUOTES)
    rows["count"] = 11
    assert quote.count == 11
    del quote
    gc.collect()
    assert rows["price"][0] == 1.5


def test_field_of_another_class_is_refused() -> None:
    class Small(bus.Message, type=1):
        one: bus.int8

    field: Any = Everything.octets
    with pytest.raises(TypeError, match="not a field of Small"):
        field.__get__(Small(1), Small)
    with pytest.raises(TypeError, match="a field of messages"):
        field.__set__(object(), b"")


@pytest.mark.parametrize("number", [-1, 1 << 32, 1.0, "0", True, None])
def test_type_number_out_of_range_is_refused(number: Any) -> None:
    with pytest.raises(MessageError, match="type"):

        class Wrong(bus.Message, type=number):
            one: bus.int8


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        (int, "bus.int64"),
        (float, "bus.float64"),
        (str, "size in bytes"),
        (bytes, "length"),
        (Annotated[bytes, 0], "length"),
        (Annotated[bytes, -1], "length"),
        (Annotated[bytes, 1 << 30], "length"),
        (Annotated[bytes, "16"], "length"),
        (Annotated[int, 4], "width"),
        (list[int], "not a kind"),
        (object, "not a kind"),
        (Any, "not a kind"),
        ("nowhere.int32", "cannot be evaluated"),
    ],
    ids=str,
)
def test_field_of_unknown_kind_or_variable_size_is_refused(annotation: Any, hint: str) -> None:
    with pytest.raises(MessageError, match=hint):
        type(bus.Message)(
            "Wrong",
            (bus.Message,),
            {"__annotations__": {"field": annotation}, "__module__": __name__},
            type=0,
        )


@pytest.mark.parametrize(
    ("dtype", "hint"),
    [
        ([("a", ">i4")], "little-endian"),
        ([("a", "U4")], "not a kind"),
        ([("a", "O")], "not a kind"),
        ([("a", "<i4", (2, 2))], "not a kind"),
        ([("a", "<c8")], "not a kind"),
        ([("a", "<M8[us]")], "not a kind"),
        ([("a", ">M8[ns]")], "little-endian"),
        ([("a", ">i4", (2,))], "little-endian"),
        ([("a", "<f2")], "not a kind"),
        ([("a", "S0")], "not a kind"),
        ([("a", [("b", "<i4")])], "not a kind"),
        ([("class", "<i4")], "name"),
        ([("layout", "<i4")], "name"),
        ([("", "<i4"), ("b c", "<i4")], "name"),
        ({"names": ["a", "b"], "formats": ["<i4", "<i4"], "offsets": [0, 2]}, "overlap"),
        ("<i4", "structured"),
        ([], "fields"),
        ("nonsense", "structured"),
    ],
    ids=str,
)
def test_unsupported_dtype_is_refused(dtype: Any, hint: str) -> None:
    with pytest.raises(MessageError, match=hint):

        class Wrong(bus.Message, type=0, dtype=dtype):
            pass


def test_invalid_message_class_is_refused() -> None:
    with pytest.raises(MessageError, match="needs a type number"):

        class Typeless(bus.Message):
            one: bus.int8

    with pytest.raises(MessageError, match="no fields"):

        class Empty(bus.Message, type=0):
            pass

    with pytest.raises(MessageError, match="derives from a message class"):

        class Longer(Quote, type=8):
            more: bus.int8

    with pytest.raises(MessageError, match="the default does not fit"):

        class Misfit(bus.Message, type=0):
            one: bus.int8 = 300

    with pytest.raises(MessageError, match="'type' cannot be"):

        class Reserved(bus.Message, type=0):
            type: bus.int8  # type: ignore[misc]

    with pytest.raises(MessageError, match="derive a message class"):
        bus.Message()


def test_claimed_message_keeps_its_bytes_and_exports_no_buffer(writer: Any) -> None:
    with writer.claim(Quote) as quote:
        assert quote.symbol == b"\0\0\0"
        quote.price = 2.5
        with pytest.raises(ClaimError, match="the claim owns the bytes"):
            memoryview(quote)
        assert bytes(quote)[:8] == struct.pack("<d", 2.5)
    quote.count = 5
    assert (quote.price, quote.count, len(memoryview(quote))) == (2.5, 5, 13)


@pytest.fixture
def writer(tmp_path: Any) -> Any:
    with bus.writer(tmp_path / "bus") as opened:
        yield opened
