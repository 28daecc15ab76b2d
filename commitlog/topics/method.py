"""Method: the signature of a method, or of a chain of methods, as the schema of its calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Self, get_type_hints

from commitlog.base.extras import imported
from commitlog.errors import MessageError
from commitlog.topics.codec import Decode, conflict, other_codec
from commitlog.topics.compiled.messages import MessageScreen
from commitlog.topics.forms import check_form
from commitlog.topics.msgspec_codec import decoder_of, unsupported
from commitlog.topics.pydantic_models import write_model
from commitlog.topics.reconciling import FormConflictError, reconciled
from commitlog.topics.schema import Schema
from commitlog.topics.schema_form import form_of
from commitlog.topics.screening import screen_of

_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_MOST_METHODS = 1000  # interfaces that return each other have more chains than their authors expect


class Step:
    """One method of a chain.

    Parameters
    ----------
    owner : type
        The class of the method.
    function : callable
        The method as its class has it.

    Attributes
    ----------
    parameters : list of inspect.Parameter
        Those of the method without `self`.
    types : list
        Their annotations.
    returned : object
        What the method returns, by its annotation.

    Raises
    ------
    MessageError
        A parameter has no name of its own, or an annotation is not defined.
    """

    def __init__(self, owner: type, function: Callable[..., Any]) -> None:
        self.function = function
        self.title = function.__name__
        self.path = f"{owner.__name__}.{self.title}"
        self.is_async = inspect.iscoroutinefunction(function)
        self.signature = inspect.signature(function)
        self.parameters = list(self.signature.parameters.values())[1:]
        try:
            hints = get_type_hints(function, include_extras=True)
        except (NameError, TypeError) as error:
            raise MessageError(f"{self.path}: {error}: define the type") from None
        for each in self.parameters:
            if each.kind not in _KINDS:
                raise MessageError(f"{self.path}: a call cannot have {each}: name it")
        self._named = [each.name for each in self.parameters if each.kind is each.KEYWORD_ONLY]
        self.types = [hints.get(each.name, Any) for each in self.parameters]
        returned = hints.get("return", Any)
        self.returned = owner if returned is Self else returned

    def bound(self, target: object) -> Callable[..., Any]:
        """Return the method of an object as a callable that takes all arguments by position."""
        method: Callable[..., Any] = getattr(target, self.title)
        named = self._named
        if not named:
            return method
        plain = len(self.parameters) - len(named)

        def call(*arguments: Any) -> Any:
            return method(*arguments[:plain], **dict(zip(named, arguments[plain:], strict=True)))

        return call


class Method:
    """A method and the codec of its calls: the arguments are one array of MessagePack.

    The method may be a chain: `to` and `sold` of ``shop.to("berlin").sold("lamp")`` are the method
    `to.sold`, whose arguments are those of both, and each call of it is one message. The idea is
    Chronicle Queue's, which writes a chain of calls as one document.

    Parameters
    ----------
    steps : sequence of Step
        The methods of the chain; one, if the method is not a chain.

    Raises
    ------
    MessageError
        msgspec cannot encode a parameter, two steps have a parameter of one name, or a step that
        others follow is async.
    MissingExtraError
        msgspec is not installed.
    """

    # These four are the attributes of a codec.
    name = "method"
    message_class = tuple

    def __init__(self, steps: Sequence[Step]) -> None:
        msgspec = imported("msgspec", "a method writer or reader", "topics")
        self.steps = steps
        self.title = ".".join([each.title for each in steps])
        self.is_async = steps[-1].is_async
        path = " → ".join([each.path for each in steps])
        for each in steps[:-1]:
            if each.is_async:
                raise MessageError(f"{path}: only the last method of a chain can be async")
        fields: list[tuple[Any, ...]] = []
        for step in steps:
            for parameter, kind in zip(step.parameters, step.types, strict=True):
                default = parameter.default
                field = (parameter.name, kind)
                fields.append(field if default is parameter.empty else (*field, default))
        self.names = [field[0] for field in fields]
        twice = [name for name in self.names if self.names.count(name) > 1]
        if twice:
            raise MessageError(f"{path}: two methods of a chain have {twice[0]!r}: rename one")
        try:
            self._fields = msgspec.defstruct(steps[-1].title, fields, kw_only=True)
            schema = form_of(self._fields)
            self._arguments = tuple.__class_getitem__(tuple(field[1] for field in fields))
            self._decode = decoder_of("msgpack", self._arguments)
            self._decode_fields = decoder_of("msgpack", self._fields)
        except (TypeError, NameError) as error:
            raise MessageError(f"{path}: {unsupported(error)}") from None
        self.form: dict[str, Any] = {**schema, "arguments": self.names}
        self.encode: Callable[[tuple[Any, ...]], bytes] = msgspec.msgpack.Encoder(
            enc_hook=write_model
        ).encode

    def bound(self, target: object) -> Callable[..., Any]:
        """Return the method of an object as a callable that takes all arguments by position."""
        if len(self.steps) == 1:
            return self.steps[0].bound(target)

        def call(*arguments: Any) -> Any:
            reached, rest = target, arguments
            for step in self.steps:
                count = len(step.parameters)
                reached, rest = step.bound(reached)(*rest[:count]), rest[count:]
            return reached

        return call

    def arguments(self, named: dict[str, Any]) -> tuple[Any, ...]:
        """Return arguments in the order of the parameters.

        Raises
        ------
        MessageError
            One is missing or unknown.
        """
        if named.keys() != set(self.names):
            raise MessageError(f"{self.title} has the arguments {self.names}, not {list(named)}")
        return tuple([named[name] for name in self.names])

    def decoder(self, schema: Schema, /) -> Decode[tuple[Any, ...]]:
        """Return what decodes the calls of a schema to arguments, in the order of this method.

        Raises
        ------
        SchemaError
            The method cannot take them: the error names the parameter.
        """
        if schema.codec != self.name:
            raise other_codec(schema, self.name)
        if schema.form == self.form:
            return self._decode
        try:
            change = reconciled(self.form, schema.form, has_bytes=True)
        except FormConflictError as error:
            raise conflict(schema, self.form, error.field, error.why) from None
        plain = plain_decoder(schema)
        encode: Callable[[Any], bytes] = self.encode

        def converted(value: bytes) -> tuple[Any, ...]:
            named = plain(value)
            changed = named if change is None else change(named)
            try:
                found = self._decode_fields(encode(changed))
            except (TypeError, OverflowError) as error:  # values that MessagePack cannot write
                raise ValueError(str(error)) from error
            return tuple([getattr(found, name) for name in self.names])

        return converted

    def screen(self, *, validate: bool) -> MessageScreen | None:
        """Return what refuses calls that would be read back as others."""
        return screen_of(self._arguments, "msgpack", self._decode, validate=validate)


def plain_decoder(schema: Schema) -> Decode[dict[str, Any]]:
    """Return what decodes calls to dicts of their arguments."""
    decode = imported("msgspec", "the codec 'method'", "topics").msgpack.Decoder(list).decode
    check_form(schema.form)
    names = schema.form.get("arguments", [])

    def named(value: bytes) -> dict[str, Any]:
        return dict(zip(names, decode(value), strict=True))

    return named


def methods_of(owner: type) -> list[Method]:
    """Return the public methods of a class, each chain as one, in the order of their names.

    Raises
    ------
    MessageError
        A method returns something else than None or an object with such methods.
    """
    chains = list(islice(_chains(owner, ()), _MOST_METHODS + 1))
    if len(chains) > _MOST_METHODS:
        raise MessageError(
            f"{owner.__name__} has more than {_MOST_METHODS} chains of methods: let fewer methods "
            "return other interfaces"
        )
    return [Method(chain) for chain in chains]


def _chains(owner: type, before: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Yield the chains that begin with some steps. No method is in a chain twice."""
    for function in _public_functions(owner):
        if any(each.function is function for each in before):
            continue
        step = Step(owner, function)
        if step.returned is type(None):
            yield (*before, step)
        elif isinstance(step.returned, type) and _public_functions(step.returned):
            yield from _chains(step.returned, (*before, step))
        else:
            raise MessageError(
                f"{step.path} must return None, because a call is appended and not answered: "
                "annotate it with -> None, or with a class whose methods go on with the call, or "
                "begin its name with _"
            )


def _public_functions(owner: type) -> list[Callable[..., Any]]:
    found = inspect.getmembers(owner, inspect.isfunction)
    return [function for name, function in found if not name.startswith("_")]
