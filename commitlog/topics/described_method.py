"""DescribedMethod: a method whose signature comes from the schema of its calls in the log."""

from __future__ import annotations

from typing import Any

from commitlog import CommitLog
from commitlog.base.extras import imported
from commitlog.errors import MessageValueError, SchemaError, TopicNotFoundError
from commitlog.topics.catalog import instead
from commitlog.topics.codec import Decode
from commitlog.topics.method import Method, plain_decoder
from commitlog.topics.schema import Schema, key_of
from commitlog.topics.schema_types import SchemaTypes
from commitlog.topics.topics_state import catalog_of


class DescribedMethod:
    """Check the arguments of calls, and encode them as `Method` does.

    Parameters
    ----------
    schema : Schema
        The schema of the calls.

    Raises
    ------
    SchemaError
        The schema is not one of a method.
    MissingExtraError
        msgspec is not installed.
    """

    # These are the attributes of a codec.
    name = Method.name
    message_class = tuple

    def __init__(self, schema: Schema) -> None:
        msgspec = imported("msgspec", "a call by a schema", "topics")
        self._convert = msgspec.convert
        self._refused = msgspec.ValidationError
        self.title = schema.topic
        self.form = schema.form
        self.encode = msgspec.msgpack.Encoder().encode
        types = SchemaTypes(schema.form)
        try:
            self._names: list[str] = list(schema.form["arguments"])
            target = schema.form["$defs"][schema.form["$ref"].rpartition("/")[2]]
            parts = target["properties"]
            self._kinds = {name: types.type_of(parts[name]) for name in self._names}
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise SchemaError(
                f"topic {schema.topic!r}: its schema is not one of a method: {error!r}",
                topic=schema.topic,
            ) from None
        required = target.get("required", ())
        self._defaults = {
            name: parts[name]["default"]
            for name in self._names
            if name not in required and "default" in parts[name]
        }

    def arguments(self, positional: list[Any], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of a call in their order, converted to their types.

        Parameters
        ----------
        positional, named
            Plain values, as JSON has them.

        Raises
        ------
        MessageValueError
            An argument is missing, unknown, given twice, or of a wrong type.
        """
        if len(positional) > len(self._names):
            self._refuse(f"takes {len(self._names)} arguments, not {len(positional)}")
        given = dict(zip(self._names, positional, strict=False))
        for name, value in named.items():
            if name in given:
                self._refuse(f"has the argument {name!r} twice")
            if name not in self._kinds:
                self._refuse(f"has no argument {name!r}; its arguments are {self._listed()}")
            given[name] = value
        given = self._defaults | given
        missing = [name for name in self._names if name not in given]
        if missing:
            self._refuse(f"needs the argument {missing[0]!r}; its arguments are {self._listed()}")
        return tuple([self._converted(name, given[name]) for name in self._names])

    def _converted(self, name: str, value: Any) -> Any:
        try:
            return self._convert(value, self._kinds[name], builtin_types=(), str_keys=True)
        except (self._refused, RecursionError, NameError, TypeError) as error:
            raise MessageValueError(f"{self.title}: the argument {name!r}: {error}") from None

    def _refuse(self, why: str) -> None:
        raise MessageValueError(f"{self.title} {why}")

    def _listed(self) -> str:
        return ", ".join(self._names) or "none"

    def decoder(self, schema: Schema, /) -> Decode[Any]:
        """Return what decodes calls to dicts of their arguments."""
        return plain_decoder(schema)


def described_method(log: CommitLog, name: str) -> DescribedMethod:
    """Return the newest version of a method whose calls a log has.

    Raises
    ------
    TopicNotFoundError
        The log has no calls of such a method.
    SchemaError
        The name is that of a topic which is no method.
    """
    catalog = catalog_of(log)
    schemas = [each for each in catalog.schemas_of(name).values() if each.codec == Method.name]
    if not schemas:
        raise TopicNotFoundError(
            f"the log has no calls of a method {name!r}: "
            f"{instead(name, catalog.topics(Method.name), 'methods')}",
            path=log.path,
            topic=name,
        )
    return DescribedMethod(max(schemas, key=lambda each: _last_position(log, each)))


def _last_position(log: CommitLog, schema: Schema) -> int:
    """Return the position of a schema's last record; -1 if none remains."""
    with log.tailer(direction="backward", visibility="appended", on_damage="skip") as tailer:
        return tailer.position if tailer.seek(key=key_of(schema.number)) else -1
