"""Method writers: an object whose methods append their calls to a log."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from commitlog import CommitLog
from commitlog.base.option import check_switches
from commitlog.errors import InvalidOptionError
from commitlog.topics.draft import Headers
from commitlog.topics.interception import Intercept, intercepted
from commitlog.topics.key_ring import KeyRing
from commitlog.topics.method import Method, Step, methods_of
from commitlog.topics.opening import open_topic
from commitlog.topics.topic import Topic

T = TypeVar("T")


def method_writer(
    log: CommitLog,
    interface: Callable[..., T],
    *,
    validate: bool = False,
    history: bool = True,
    intercept: Intercept | None = None,
    headers: Callable[[], Headers | None] | None = None,
    keys: KeyRing | None = None,
    seal_positions: bool = False,
) -> T:
    """Return an object with the methods of an interface that appends each call to a log.

    Each method is a topic with its name, and its signature is the schema, which changes as that of
    a topic may. Any thread may use the object.

    Parameters
    ----------
    log : CommitLog
        A log open for appending. Several interfaces may share it.
    interface : type
        A class, such as a Protocol, whose public methods return None, or another interface whose
        methods continue the call: ``shop.to("berlin").sold("lamp")`` is one call of `to.sold`.
    validate, history, keys, seal_positions
        As for `commitlog.topic`.
    intercept : callable, optional
        Takes the name of a method, the arguments of a call by their names, and a function that
        appends the call with such arguments. It may change them, or append nothing. If the method
        is `async def`, the function returns a coroutine, which `intercept` returns or awaits.
    headers : callable, optional
        Returns the headers of a call, such as the context of the current trace. It is called for
        each call that is appended, in the thread of the call.

    Raises
    ------
    InvalidOptionError
        The interface is not a class, or has no public method, or `intercept` is async and a method
        is not.
    MessageError
        A method returns a value, msgspec cannot encode a parameter, or two methods of a chain have
        a parameter of one name.
    SchemaError
        A method cannot take the calls that the log has.
    MissingExtraError
        msgspec, or a package of the encryption, is not installed.
    """
    if headers is not None and not callable(headers):
        raise InvalidOptionError(
            f"headers must be a function that returns those of a call, not {headers!r}"
        )
    check_switches(history=history, seal_positions=seal_positions)
    if not isinstance(interface, type):
        raise InvalidOptionError(f"an interface must be a class, not {interface!r}")
    methods = methods_of(interface)
    if not methods:
        raise InvalidOptionError(
            f"{interface.__name__} has no public method: a writer would append nothing"
        )
    appends = {}
    for method in methods:
        if inspect.iscoroutinefunction(intercept) and not method.is_async:
            raise InvalidOptionError(
                f"{method.title} is not async, so it cannot await an async interceptor: give a "
                "plain function, or make each method of the interface async def"
            )
        topic = open_topic(
            log,
            tuple,
            name=method.title,
            codec=method,
            validate=validate,
            history=history,
            keys=keys,
            seal_positions=seal_positions,
        )
        appends[method.title] = _append(method, topic, intercept, headers)
    writer: T = _writer_class(f"{interface.__name__}Writer", methods, 0, appends)()
    return writer


def _append(
    method: Method,
    topic: Topic[tuple[Any, ...]],
    intercept: Intercept | None,
    headers: Callable[[], Headers | None] | None,
) -> Callable[[tuple[Any, ...]], Any]:
    """Return what appends a call with some arguments, or a coroutine function for it."""
    append: Callable[..., Any] = topic.append_async if method.is_async else topic.append
    if headers is not None:
        plain = append
        append = lambda arguments: plain(arguments, headers=headers())  # noqa: E731
    if intercept is None:
        return append
    through = intercepted(method, intercept, lambda *arguments: append(arguments))
    if not method.is_async:
        return lambda arguments: through(*arguments)

    async def append_async(arguments: tuple[Any, ...]) -> None:
        result = through(*arguments)
        if inspect.isawaitable(result):
            await result

    return append_async


def _writer_class(
    title: str, methods: list[Method], depth: int, appends: dict[str, Callable[..., Any]]
) -> Callable[..., Any]:
    """Return a class with the steps of some methods at one depth of their chains.

    Behind the first step, its objects keep the arguments of the steps before.
    """
    made: dict[str, Any] = {"__slots__": ()}
    if depth:
        made = {"__slots__": ("_given",), "__init__": _keep_given}
    for name, group in itertools.groupby(methods, lambda each: each.steps[depth].title):
        chains = list(group)
        if len(chains[0].steps) == depth + 1:
            call, statement = appends[chains[0].title], ""
        else:
            call, statement = _writer_class(f"{title}.{name}", chains, depth + 1, appends), "return"
        made[name] = _writing(chains[0].steps[depth], statement, call, is_later=depth > 0)
    return type(title, (), made)


def _keep_given(self: Any, given: tuple[Any, ...]) -> None:
    self._given = given


def _writing(
    step: Step, statement: str, call: Callable[..., Any], *, is_later: bool
) -> Callable[..., Any]:
    """Return a function with the signature of a step that calls something with its arguments; it is
    compiled, because binding a signature at each call takes longer than the append.
    """
    values = {
        f"_default_{each.name}": each.default
        for each in step.parameters
        if each.default is not each.empty
    }
    bare = [each.replace(annotation=each.empty, default=each.empty) for each in step.parameters]
    heads = [
        f"{each}=_default_{each.name}" if f"_default_{each.name}" in values else str(each)
        for each in bare
    ]
    first_named = next((i for i, each in enumerate(bare) if each.kind is each.KEYWORD_ONLY), None)
    if first_named is not None:
        heads.insert(first_named, "*")
    before = "*_self._given, " if is_later else ""
    arguments = before + "".join(f"{each.name}, " for each in bare)
    kind, statement = ("async def", "await") if step.is_async else ("def", statement)
    text = (
        f"{kind} {step.title}({', '.join(['_self', *heads])}):\n"
        f"    {statement} _call(({arguments}))\n"
    )
    names = {**values, "_call": call}
    exec(compile(text, f"<method {step.title}>", "exec"), names)
    found: Callable[..., Any] = names[step.title]
    found.__signature__ = step.signature  # type: ignore[attr-defined]
    return found
