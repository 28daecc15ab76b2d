"""ReaderThread: the thread of `MethodReader.start`."""

from __future__ import annotations

import threading
from collections.abc import Callable

from commitlog.base.service import Service


class ReaderThread(Service):
    """A thread that handles calls, and keeps what ended it."""

    def __init__(self, path: str, handle: Callable[[], int]) -> None:
        super().__init__(f"commitlog methods {path}")
        self.thread_id: int | None = None
        self.handled = 0
        self.failure: BaseException | None = None
        self._handle = handle

    def run(self) -> None:
        self.thread_id = threading.get_ident()
        try:
            self.handled = self._handle()
        except BaseException as error:
            self.failure = error
            raise
