"""Cached: a property that is computed on its first access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class Cached(Generic[T]):
    """A property that the object keeps in its dictionary, as `functools.cached_property` does.

    That of CPython 3.11 holds one lock for all objects of a class while it computes. If another
    thread forks meanwhile, the lock stays locked in the child.

    Parameters
    ----------
    compute : callable
        The method. Two threads may call it at once, for an equal result.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.__doc__ = compute.__doc__
        self._compute = compute
        self._name = compute.__name__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | Self:
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value
