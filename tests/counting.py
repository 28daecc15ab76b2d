"""Count the system calls that Python code makes, and the work that they are."""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_CALLS = ("stat", "fstat", "open", "close", "unlink", "rename", "mkdir", "fsync", "pwrite", "write")
_BYTES_A_CALL = 4096  # a read of more counts as several


@contextlib.contextmanager
def counted(*, here: bool = False) -> Iterator[Counter[str]]:
    """Count the calls within a `with`, or only those of this thread if `here`. A listing counts its
    names, a read its pages.

    Calls of the C kernel are not seen.
    """
    calls: Counter[str] = Counter()
    own = threading.get_ident()

    def watch(module: Any, name: str, size: Callable[[Any], int]) -> None:
        call = getattr(module, name)

        def watched(*given: Any, **named: Any) -> Any:
            answer = call(*given, **named)
            if not here or threading.get_ident() == own:
                calls[name] += size(answer)
            return answer

        patch.setattr(module, name, watched)

    with pytest.MonkeyPatch.context() as patch:
        for name in _CALLS:
            watch(os, name, lambda answer: 1)
        watch(builtins, "open", lambda answer: 1)
        for name in ("listdir", "scandir"):
            watch(os, name, len)
        for name in ("read", "pread"):
            watch(os, name, lambda answer: 1 + len(answer) // _BYTES_A_CALL)
        for name in ("fcntl", "flock"):
            watch(fcntl, name, lambda answer: 1)
        yield calls


def calls_of(work: Callable[[], object]) -> int:
    """Return how many calls some work makes."""
    with counted() as calls:
        work()
    return calls.total()
