"""Method writers: an object whose methods append their calls to a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from commitlog.errors import InvalidOptionError
from commitlog.log.commit_log import CommitLog
from commitlog.messages.method import Method, methods_of
from commitlog.messages.opening import open_topic
from commitlog.messages.topic import Topic

T = TypeVar("T")


def method_writer(log: CommitLog, interface: Callable[..., T], *, history: bool = True) -> T:
    """Return an object with the methods of an interface; each call of one is appended.

    Each method is a topic with its name, and its signature is the schema, which changes as that of
    a topic may. Any thread may use the object.

    Parameters
    ----------
    log : CommitLog
        A log open for appending. Several interfaces may share it.
    interface : type
        A class, such as a Protocol, whose public methods return None.
    history : bool
        As for `commitlog.topic`.

    Raises
    ------
    InvalidOptionError
        The interface is no class, or has no public method.
    MessageError
        A method returns a value, or msgspec cannot encode a parameter.
    SchemaError
        A method cannot take the calls that the log has.
    MissingExtraError
        msgspec is not installed.
    """
    if not isinstance(interface, type):
        raise InvalidOptionError(f"an interface must be a class, not {interface!r}")
    owner = interface.__name__
    made = {}
    for name, function in methods_of(interface):
        method = Method(owner, function)
        topic = open_topic(log, tuple, name=name, codec=method, history=history)
        made[name] = _writing(method, topic)
    if not made:
        raise InvalidOptionError(f"{owner} has no public method: a writer would append nothing")
    writer: T = type(f"{owner}Writer", (), {"__slots__": (), **made})()
    return writer


def _writing(method: Method, topic: Topic[tuple[Any, ...]]) -> Callable[..., Any]:
    """Return a function with the signature of a method; it is compiled, because binding a signature
    at each call takes longer than the append.
    """
    values = {
        f"_default_{each.name}": each.default
        for each in method.parameters
        if each.default is not each.empty
    }
    bare = [each.replace(annotation=each.empty, default=each.empty) for each in method.parameters]
    heads = [
        f"{each}=_default_{each.name}" if f"_default_{each.name}" in values else str(each)
        for each in bare
    ]
    first_named = next((i for i, each in enumerate(bare) if each.kind is each.KEYWORD_ONLY), None)
    if first_named is not None:
        heads.insert(first_named, "*")
    arguments = "".join(f"{each.name}, " for each in bare)
    call = f"await _append_async(({arguments}))" if method.is_async else f"_append(({arguments}))"
    kind = "async def" if method.is_async else "def"
    text = f"{kind} {method.title}({', '.join(['_self', *heads])}):\n    {call}\n"
    names = {**values, "_append": topic.append, "_append_async": topic.append_async}
    exec(compile(text, f"<method {method.title}>", "exec"), names)
    found: Callable[..., Any] = names[method.title]
    found.__signature__ = method.signature  # type: ignore[attr-defined]
    return found
