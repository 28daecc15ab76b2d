"""The Arrow type of a schema's messages, and how decoded messages become values of a type."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import re
from collections.abc import Callable
from typing import Any

from commitlog.base.extras import pyarrow_for
from commitlog.topics.decoding import as_json
from commitlog.topics.schema import Schema

# A decimal of JSON has no precision, and Arrow's has at most 38 digits.
_DECIMAL = (38, 18)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ARRAY = re.compile(r"(\w+)\[\d+\]")
# What a value that does not fit its type raises.
MISFITS = (ValueError, TypeError, ArithmeticError, AttributeError)


def arrow_type_of(schema: Schema) -> Any:
    """Return the Arrow type of the messages of a schema. What has no type of its own is text: that
    of Protocol Buffers, unions, tuples, and objects within themselves.
    """
    types = _Types()
    makers: dict[str, Callable[[dict[str, Any]], Any]] = {
        **dict.fromkeys(("json", "msgpack", "method"), types.of_json_schema),
        "fixed": types.of_layout,
        "avro": lambda form: types.of_avro(form["avro"]),
        "arrow": types.of_arrow,
    }
    try:
        return makers[schema.codec](schema.form)
    except (KeyError, TypeError, AttributeError, ValueError):
        return types.text


class _Types:
    """Make Arrow types of the forms of schemas, of signed numbers only, as Spark has them."""

    def __init__(self) -> None:
        self._pa = pa = pyarrow_for("the types of messages")
        self.text = pa.string()
        self._time = pa.timestamp("us", "UTC")
        self._forms: dict[str, Any] = {}
        self._open: list[str] = []  # names of the forms that are being made
        self._plain = {
            "integer": pa.int64(),
            "number": pa.float64(),
            "boolean": pa.bool_(),
        }
        self._texts = {
            "date-time": self._time,
            "date": pa.date32(),
            "decimal": pa.decimal128(*_DECIMAL),
        }
        self._avro = {
            "boolean": pa.bool_(),
            "int": pa.int32(),
            "long": pa.int64(),
            "float": pa.float32(),
            "double": pa.float64(),
            "bytes": pa.binary(),
            "date": pa.date32(),
            "timestamp-millis": self._time,
            "timestamp-micros": self._time,
        }
        self._fixed = {
            "bool": pa.bool_(),
            **{name: getattr(pa, name)() for name in ("int8", "int16", "int32", "int64")},
            "uint8": pa.int16(),
            "uint16": pa.int32(),
            "uint32": pa.int64(),
            "uint64": pa.decimal128(20, 0),
            "float32": pa.float32(),
            "float64": pa.float64(),
            "datetime": self._time,
            "str": self.text,
        }

    # --- JSON Schema, of msgspec and of methods ---------------------------------------------------

    def of_json_schema(self, form: dict[str, Any]) -> Any:
        self._forms = self._forms or form.get("$defs", {})
        if "$ref" in form:
            name = form["$ref"].rpartition("/")[2]
            return self._named(name, lambda: self.of_json_schema(self._forms[name]))
        if "anyOf" in form:
            kinds = [each for each in form["anyOf"] if each.get("type") != "null"]
            return self.of_json_schema(kinds[0]) if len(kinds) == 1 else self.text
        if form.get("type") == "object":
            return self._object(form)
        if "fields" in form:
            parts = zip(form["fields"], form["prefixItems"], strict=True)
            return self._struct((name, self.of_json_schema(part)) for name, part in parts)
        if form.get("type") == "array":
            items = None if "prefixItems" in form else form.get("items")
            return self._pa.list_(self.of_json_schema(items)) if items else self.text
        return self._value(form)

    def _value(self, form: dict[str, Any]) -> Any:
        if "contentEncoding" in form:
            return self._pa.binary()
        if "enum" in form and all(type(each) is int for each in form["enum"]):
            return self._pa.int64()
        kind = str(form.get("type"))
        return self._plain.get(kind) or self._texts.get(form.get("format", ""), self.text)

    def _object(self, form: dict[str, Any]) -> Any:
        fields = form.get("properties")
        if fields:
            # Only the required ones have the order of the class.
            names = dict.fromkeys([*form.get("required", ()), *sorted(fields)])
            return self._struct((name, self.of_json_schema(fields[name])) for name in names)
        more = form.get("additionalProperties")
        return self._map(self.of_json_schema(more)) if isinstance(more, dict) else self.text

    def _named(self, name: str, made: Callable[[], Any]) -> Any:
        if name in self._open:
            return self.text
        self._open.append(name)
        found = made()
        self._open.pop()
        return found

    def _struct(self, fields: Any) -> Any:
        return self._pa.struct(list(fields))

    def _map(self, values: Any) -> Any:
        return self._pa.map_(self.text, values)

    # --- other codecs -----------------------------------------------------------------------------

    def of_layout(self, form: dict[str, Any]) -> Any:
        return self._struct((each["name"], self._of_kind(each["kind"])) for each in form["fields"])

    def _of_kind(self, kind: str) -> Any:
        array = _ARRAY.fullmatch(kind)
        if array is not None:
            return self._pa.list_(self._of_kind(array[1]))
        return self._fixed.get(kind.partition(" ")[0], self._pa.binary())

    def of_avro(self, form: Any) -> Any:
        if isinstance(form, list):
            kinds = [each for each in form if each != "null"]
            return self.of_avro(kinds[0]) if len(kinds) == 1 else self.text
        if isinstance(form, str):
            known = form in self._forms and form not in self._open
            return self.of_avro(self._forms[form]) if known else self._avro.get(form, self.text)
        if not isinstance(form["type"], str):
            return self.of_avro(form["type"])
        self._forms[form.get("name", "")] = form
        kind = form.get("logicalType", form["type"])
        makers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "decimal": lambda form: self._pa.decimal128(form["precision"], form.get("scale", 0)),
            "record": self._record,
            "array": lambda form: self._pa.list_(self.of_avro(form["items"])),
            "map": lambda form: self._map(self.of_avro(form["values"])),
            "fixed": lambda _: self._pa.binary(),
        }
        return makers[kind](form) if kind in makers else self._avro.get(kind, self.text)

    def _record(self, form: dict[str, Any]) -> Any:
        self._open.append(form["name"])
        made = self._struct((each["name"], self.of_avro(each["type"])) for each in form["fields"])
        self._open.pop()
        return made

    def of_arrow(self, form: dict[str, Any]) -> Any:
        pa = self._pa
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(form["arrow"])))
        return pa.list_(self._struct((field.name, field.type) for field in schema))


# --- values ---------------------------------------------------------------------------------------


def converter(kind: Any) -> Callable[[Any], Any]:
    """Return what makes a value for an Arrow type of a part of a decoded message. What is missing
    is None, and other fields are left out. It raises one of `MISFITS`.
    """
    made = _converter(kind)
    return lambda value: None if value is None else made(value)


def _converter(kind: Any) -> Callable[[Any], Any]:
    pa = pyarrow_for("the types of messages")
    types = pa.types
    if types.is_struct(kind):
        fields = {field.name: converter(field.type) for field in kind}
        return lambda value: {name: made(value.get(name)) for name, made in fields.items()}
    if types.is_list(kind):
        item = converter(kind.value_type)
        return lambda value: [item(each) for each in value]
    if types.is_map(kind):
        item = converter(kind.item_type)
        return lambda value: [(name, item(each)) for name, each in value.items()]
    for matches, made in (
        (types.is_string, _text),
        (types.is_binary, _bytes),
        (types.is_timestamp, _time),
        (types.is_date, _date),
        (types.is_decimal, lambda value: decimal.Decimal(str(value))),
    ):
        if matches(kind):
            return made
    return lambda value: value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = as_json(value)
    return json.loads(text) if text.startswith('"') else text


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)


def _time(value: Any) -> Any:
    """Return microseconds since 1970, of nanoseconds or of a time; without a zone, it is in UTC."""
    if isinstance(value, int):
        return value // 1000
    found = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    aware = found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // dt.timedelta(microseconds=1)


def _date(value: Any) -> Any:
    return dt.date.fromisoformat(value) if isinstance(value, str) else value
