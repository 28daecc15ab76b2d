"""Models of pydantic as messages, as fields of them, and as parameters of methods."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import math
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field

import commitlog
from commitlog import topics
from commitlog.errors import MessageError, MessageValueError, SchemaError
from commitlog.topics.codec import CodecName

NOW = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)


class Kind(enum.Enum):
    SALE = "sale"
    GIFT = "gift"


class Line(BaseModel):
    sku: str
    count: int = 1


class Card(BaseModel):
    type: Literal["card"] = "card"
    number: str = ""


class Cash(BaseModel):
    type: Literal["cash"] = "cash"


class Order(BaseModel):
    model_config = ConfigDict(strict=True)

    id: int
    at: dt.datetime
    total: decimal.Decimal
    token: uuid.UUID
    kind: Kind = Kind.SALE
    lines: list[Line] = Field(default_factory=list, alias="orderLines")
    paid: Annotated[Card | Cash, Field(discriminator="type")] = Cash()
    by_name: dict[str, Line] = {}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def size(self) -> int:
        return len(self.lines)


class Measured(BaseModel):
    value: float


@dataclasses.dataclass
class Basket:
    first: Line
    rest: list[Line]


def order() -> Order:
    lines = [Line(sku="a"), Line(sku="b", count=2)]
    return Order(
        id=1, at=NOW, total=decimal.Decimal("1.50"), token=uuid.UUID(int=7), kind=Kind.GIFT,
        orderLines=lines, paid=Card(number="4"), by_name={"x": lines[0]},
    )  # fmt: skip


def named(model: Any, name: str) -> Any:
    model.__name__ = name
    return model


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_model_is_read_as_it_was_appended(codec: CodecName, tmp_path: Path) -> None:
    with commitlog.topic(tmp_path, Order, codec=codec) as orders:
        orders.append(order())
        assert list(orders) == [order()]


def test_names_of_fields_are_written_and_no_aliases(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path, Order) as orders:
        orders.append(order())
        *_, found = [record.value for record in orders.log]
    assert b'"lines":[{"sku":"a","count":1}' in found
    assert b"orderLines" not in found
    assert b'"size"' not in found


def test_models_are_fields_of_a_dataclass(tmp_path: Path) -> None:
    basket = Basket(Line(sku="a"), [Line(sku="b")])
    with commitlog.topic(tmp_path, Basket) as baskets:
        baskets.append(basket)
        assert list(baskets) == [basket]


def test_field_with_a_default_is_added_to_a_model(tmp_path: Path) -> None:
    class Later(BaseModel):
        sku: str
        count: int = 1
        note: str = "none"

    with commitlog.topic(tmp_path, Line) as lines:
        lines.append(Line(sku="a", count=3))
    with commitlog.topic(tmp_path, named(Later, "Line")) as lines:
        assert list(lines) == [Later(sku="a", count=3, note="none")]


def test_model_that_cannot_take_messages_is_refused(tmp_path: Path) -> None:
    class Other(BaseModel):
        sku: int

    with commitlog.topic(tmp_path, Line) as lines:
        lines.append(Line(sku="a"))
    with pytest.raises(SchemaError, match=r"\$\.sku: string cannot be read as integer"):
        commitlog.topic(tmp_path, named(Other, "Line"))


def test_dataclass_reads_the_messages_of_a_model(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Plain:
        sku: str
        count: int

    with commitlog.topic(tmp_path, Line) as lines:
        lines.append(Line(sku="a"))
    with commitlog.topic(tmp_path, named(Plain, "Line")) as lines:
        assert list(lines) == [Plain("a", 1)]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_number_that_json_cannot_have_is_refused(value: float, tmp_path: Path) -> None:
    with commitlog.topic(tmp_path, Measured) as measured:
        with pytest.raises(MessageValueError, match="could not decode it"):
            measured.append(Measured(value=value))
        assert list(measured) == []


def test_value_of_a_wrong_type_is_refused(tmp_path: Path) -> None:
    made = Line.model_construct(sku=1)  # not validated
    with commitlog.topic(tmp_path, Line) as lines:
        with pytest.raises(MessageValueError, match="Expected `str`"):
            lines.append(made)
        with pytest.raises(MessageError, match="takes Line, not Card"):
            lines.append(Card())  # type: ignore[arg-type]


class Gift(Line):
    note: str = ""


class Doubtful(BaseModel):
    line: Line = Line(sku="a")
    secret: SecretStr = SecretStr("")
    any: Any = None
    left_out: int = Field(default=0, exclude=True)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("line", Gift(sku="a", note="for you")),
        ("secret", SecretStr("hush")),
        ("any", (1, 2)),
        ("any", Line(sku="a")),
        ("left_out", 1),
    ],
)
def test_model_that_would_be_read_as_another_is_refused(
    field: str, value: Any, codec: CodecName, tmp_path: Path
) -> None:
    with commitlog.topic(tmp_path, Doubtful, codec=codec) as doubtful:
        doubtful.append(Doubtful())
        with pytest.raises(MessageValueError, match=rf"\$\.{field} is"):
            doubtful.append(Doubtful(**{field: value}))
        assert list(doubtful) == [Doubtful()]


def test_message_that_a_validator_refuses_is_undecodable(tmp_path: Path) -> None:
    class Strict(BaseModel):
        sku: Annotated[str, Field(max_length=2)]

    with commitlog.topic(tmp_path, Line) as lines:
        lines.append(Line(sku="long"))
    with (
        commitlog.topic(tmp_path, named(Strict, "Line")) as lines,
        pytest.raises(commitlog.errors.UndecodableError, match="at most 2 characters"),
    ):
        list(lines)


def test_model_is_a_parameter_of_a_method(tmp_path: Path) -> None:
    class Taking:
        def sell(self, order: Order, lines: list[Line], times: int) -> None:
            taken.append((order, lines, times))

    taken: list[Any] = []
    with commitlog.open(tmp_path) as log:
        commitlog.method_writer(log, Taking).sell(order(), [Line(sku="z")], 3)
        assert commitlog.method_reader(log, Taking()).read_one()
    assert taken == [(order(), [Line(sku="z")], 3)]


def test_tools_read_models_without_their_class(tmp_path: Path) -> None:
    with commitlog.topic(tmp_path, Order) as orders:
        orders.append(order())
        (row,) = topics.to_arrow(orders.log, ["Order"]).column("message").to_pylist()
    assert row["Order"]["paid"] == '{"type": "card", "number": "4"}'
