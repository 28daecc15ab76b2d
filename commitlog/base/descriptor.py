"""Descriptor: a file descriptor that is closed once no call uses it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable


class Descriptor(int):
    """A file descriptor, closed when the last reference to this object goes.

    A system call of another thread holds its arguments until it returns. The number therefore
    belongs to this file until then, and is never that of a file that was opened meanwhile.
    """

    # The function is bound here: at the interpreter's end the module may be gone before the object.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # The program may have closed every descriptor that it inherited.
        with contextlib.suppress(OSError):
            close(self)
