"""ProcessBound: objects that cannot be pickled or copied; the error says what to do instead."""

from __future__ import annotations

from typing import NoReturn


class ProcessBound:
    """A base of classes whose objects hold descriptors, mappings or threads."""

    __slots__ = ()
    _instead = "open the log in each process"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied: {self._instead}")
