"""Decoded messages as an Arrow array: structs, maps and lists by the schemas, other values by what
they are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from commitlog.base.extras import pyarrow_for
from commitlog.topics.arrow_types import arrow_type_of
from commitlog.topics.codec import made_by_schema
from commitlog.topics.decoding import as_json
from commitlog.topics.schema import Schema

# Of those that the schema does not name: each is a column for all messages.
_MOST_KEYS = 1000


def message_column(messages: Sequence[Any], schemas: Sequence[Schema]) -> Any:
    """Return the messages of a topic as an Arrow array, with None for other records; as JSON text
    if they have no common Arrow type.

    Parameters
    ----------
    messages : sequence
        Dicts, lists and plain values.
    schemas : sequence of Schema
        All schemas of the topic.

    Raises
    ------
    ValueError
        A message is nested too deeply.
    """
    pa = pyarrow_for("topics.to_arrow")
    guides = [made_by_schema(schema, functools.partial(_guide_of, schema)) for schema in schemas]
    guide = functools.reduce(_merged, guides) if guides else pa.null()
    try:
        if pa.types.is_nested(guide):
            return _array(messages, guide)
        keys = {key for each in messages if isinstance(each, dict) for key in each}
        return pa.array(messages) if len(keys) <= _MOST_KEYS else _text(messages)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return _text(messages)
    except (UnicodeEncodeError, RecursionError):  # a lone surrogate, or a deep nest
        return _text(messages)


def _guide_of(schema: Schema) -> Any:
    if schema.codec == "protobuf":
        from commitlog.topics.protobuf_codec import guide_of

        return guide_of(schema)
    return arrow_type_of(schema)


def _merged(one: Any, other: Any) -> Any:
    """Return the shape that messages of two schemas have in common."""
    pa = pyarrow_for("topics.to_arrow")
    types = pa.types
    if one == other:
        return one
    if types.is_struct(one) and types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            known = fields.get(field.name)
            fields[field.name] = field.type if known is None else _merged(known, field.type)
        return pa.struct(list(fields.items()))
    if types.is_map(one) and types.is_map(other):
        return pa.map_(pa.string(), _merged(one.item_type, other.item_type))
    if types.is_list(one) and types.is_list(other):
        return pa.list_(_merged(one.value_type, other.value_type))
    return pa.null()


def _array(values: Sequence[Any], guide: Any) -> Any:
    """Return values as an array that has the shape of a type where they have it."""
    types = pyarrow_for("topics.to_arrow").types
    given = {type(each) for each in values} - {type(None)}
    if types.is_struct(guide) and given <= {dict}:
        return _structs(values, guide)
    if types.is_map(guide):
        if given <= {dict}:
            return _maps(values, guide)
        return pyarrow_for("topics.to_arrow").array(values, guide)
    if types.is_list(guide) and given <= {list, tuple}:
        pa = pyarrow_for("topics.to_arrow")
        items = _array([item for each in values for item in each or ()], guide.value_type)
        return pa.ListArray.from_arrays(_offsets(values), items)
    return _leaves(values, given)


def _structs(values: Sequence[Any], guide: Any) -> Any:
    pa = pyarrow_for("topics.to_arrow")
    kinds = {field.name: field.type for field in guide}
    for each in values:
        for name in each or ():
            if name not in kinds:
                kinds[name] = pa.null()
    if len(kinds) > len(guide) + _MOST_KEYS:
        return _text(values)
    if not kinds:
        return pa.array(values, pa.struct([]))
    arrays = [
        _array([None if each is None else each.get(name) for each in values], kind)
        for name, kind in kinds.items()
    ]
    fields = [pa.field(name, array.type) for name, array in zip(kinds, arrays, strict=True)]
    missing = pa.array([each is None for each in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=missing)


def _maps(values: Sequence[Any], guide: Any) -> Any:
    pa = pyarrow_for("topics.to_arrow")
    names = [name for each in values for name in each or ()]
    items = _array([item for each in values for item in (each or {}).values()], guide.item_type)
    keys = pa.array(names) if names else pa.array([], pa.string())
    return pa.MapArray.from_arrays(_offsets(values), keys, items)


def _offsets(values: Sequence[Any]) -> Any:
    """Return where each list or map begins, with nulls for None."""
    found: list[int | None] = []
    end = 0
    for each in values:
        found.append(None if each is None else end)
        end += 0 if each is None else len(each)
    pa = pyarrow_for("topics.to_arrow")
    return pa.array([*found, end], pa.int32())


def _leaves(values: Sequence[Any], given: set[type]) -> Any:
    pa = pyarrow_for("topics.to_arrow")
    if dict in given or (given & {list, tuple} and any(map(_has_dict, values))):
        return _text(values)  # each key would be a column for all messages
    return pa.array(values)


def _has_dict(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_dict, value))
    return isinstance(value, dict)


def _text(values: Sequence[Any]) -> Any:
    pa = pyarrow_for("topics.to_arrow")
    return pa.array([None if each is None else as_json(each) for each in values], pa.string())
