"""Message: the base of message classes, and the metaclass that lays their fields out."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
from typing import Any, ClassVar, Self, dataclass_transform, get_origin, get_type_hints

from commitlog.errors import MessageError, MessageValueError, RecordTypeError
from commitlog.topics.compiled.messages import Field, MessageBytes
from commitlog.topics.layout import Layout


@dataclass_transform(field_specifiers=(dataclasses.field,))
class MessageClass(builtins.type):
    """The class of message classes: lay the fields out, and make each a descriptor over the bytes
    of a message.
    """

    def __new__(
        mcs,
        name: str,
        bases: tuple[builtins.type, ...],
        namespace: dict[str, Any],
        *,
        type: int | None = None,
        dtype: Any = None,
    ) -> MessageClass:
        # Without a `__dict__`, setting a misspelt field raises.
        cls = super().__new__(mcs, name, bases, {"__slots__": (), **namespace})
        parents = [base for base in bases if isinstance(base, MessageClass)]
        if not parents:
            return cls  # Message itself
        if any(hasattr(parent, "layout") for parent in parents):
            raise MessageError(
                f"{name} derives from a message class: derive it from Message, with a type and "
                "all its fields"
            )
        if type is None:
            raise MessageError(f"{name} needs a type number: class {name}(bus.Message, type=0)")
        if dtype is not None:
            layout = Layout.of_dtype(name, type, dtype)
            cls.__annotations__ = {field.name: Any for field in layout.fields}
        else:
            layout = Layout.of_annotations(name, type, _field_annotations(cls))
        _become_dataclass(cls, layout)
        return cls


def _field_annotations(cls: builtins.type) -> dict[str, Any]:
    """Return the annotations of the class body that are fields, in their order."""
    own = inspect.get_annotations(cls)
    try:
        hints = get_type_hints(cls, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise MessageError(
            f"{cls.__name__}: an annotation cannot be evaluated: {error}; define its names in the "
            "module"
        ) from None
    return {
        name: hints[name]
        for name in own
        if get_origin(hints[name]) is not ClassVar and hints[name] is not ClassVar
    }


def _become_dataclass(cls: Any, layout: Layout) -> None:
    dataclasses.dataclass(repr=False)(cls)
    fields = dataclasses.fields(cls)
    cls.layout = layout
    cls.type = layout.type
    for descriptor in layout.fields:
        setattr(cls, descriptor.name, descriptor)
    blank = cls.__new__(cls)
    for field in fields:
        if field.default is not dataclasses.MISSING:
            try:
                setattr(blank, field.name, field.default)
            except (MessageValueError, RecordTypeError) as error:
                raise MessageError(f"the default does not fit: {error.message}") from None


def _shown(message: Message, field: Field) -> str:
    """Return the `repr` of a field's value, or of its bytes if they are no value of its kind."""
    try:
        return repr(field.__get__(message))
    except MessageValueError:
        content = bytes(message)[field.offset : field.offset + field.length]
        return f"<no {field.kind}: {content!r}>"


class Message(MessageBytes, metaclass=MessageClass):
    """The base of message classes: a type number and a fixed layout, in bytes of its own or, in a
    claim, in the log.

    A subclass names its type number and annotates its fields, or takes them from a NumPy structured
    dtype. It is a dataclass whose fields are read and written in its bytes, which
    ``bytes(message)`` and the buffer protocol give. Equal messages are of one class and have equal
    fields. In ``match``, a class pattern takes the fields in their order.

    Attributes
    ----------
    type : int
        The class's type number, 0 to 4294967295.
    layout : Layout
        The place of each field; printable.

    Raises
    ------
    MessageError
        From the class statement: no type number or one out of range, no fields, a field of no known
        kind or without a fixed size.
    MessageValueError, RecordTypeError
        From setting a field: the value does not fit, or is of the wrong Python type; the message is
        unchanged. From reading a field: a foreign writer stored a number that is no member of the
        enum, or bytes that are no UTF-8.

    Examples
    --------
    ``class Quote(bus.Message, type=1):`` with ``price: bus.float64`` and ``symbol: Annotated[bytes,
    8]`` in its body, or ``class Quote(bus.Message, type=1, dtype=QUOTES): pass``.
    """

    layout: ClassVar[Layout]
    type: ClassVar[int]

    def __init__(self) -> None:
        """Take the fields, in their order: each subclass has its own."""

    def __repr__(self) -> str:
        hidden = {field.name for field in dataclasses.fields(self) if not field.repr}
        shown = [
            f"{field.name}={_shown(self, field)}"
            for field in self.layout.fields
            if field.name not in hidden
        ]
        return f"{builtins.type(self).__qualname__}({', '.join(shown)})"

    @classmethod
    def blank(cls) -> Self:
        """Make a message whose bytes are all zero, to be refilled or filled field by field."""
        return cls.__new__(cls)
