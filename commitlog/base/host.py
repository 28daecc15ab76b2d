"""Host: what the floors above the kernel ask of the world: time, randomness, threads, connections.

`host` is the real one. A simulation replaces its attributes, and runs the same code in one thread
from one seed: each wait of these floors is a call of `host` or a failpoint.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from commitlog.errors import IOFailureError

if TYPE_CHECKING:  # a program without network and stores does not import these
    import socket
    from concurrent.futures import Executor

T = TypeVar("T")


class Thread(Protocol):
    """A thread that `Host.thread` returns. It does not run before `start`, which raises
    `IOFailureError` if the system has no thread left.
    """

    @property
    def ident(self) -> int | None: ...
    def start(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


Wait = Callable[[Any, int, float], object]


class Host:
    """Functions of the standard library, each at one place.

    Attributes
    ----------
    thread : callable
        Returns a daemon thread of a name that runs a function.
    ident : callable
        Returns what tells the calling thread from others.
    executor : callable
        Returns an executor of so many threads, for the log or store at a path, with the same error.
    await_event : callable
        Calls a function of the kernel that sleeps, with an engine, the number of an event, and
        seconds.
    """

    def __init__(self) -> None:
        self.monotonic: Callable[[], float] = time.monotonic
        self.time_ns: Callable[[], int] = time.time_ns
        self.sleep: Callable[[float], object] = time.sleep
        self.random: Callable[[int], bytes] = os.urandom
        self.boot_id: Callable[[], bytes] = _boot_id
        self.lock: Callable[[], threading.Lock] = threading.Lock
        self.condition: Callable[[], threading.Condition] = threading.Condition
        self.event: Callable[[], threading.Event] = threading.Event
        self.semaphore: Callable[[int], threading.BoundedSemaphore] = threading.BoundedSemaphore
        self.thread: Callable[[str, Callable[[], object]], Thread] = _thread
        self.ident: Callable[[], int] = threading.get_ident
        self.executor: Callable[[int, str], Executor] = _executor
        self.await_event: Callable[[Wait, Any, int, float], object] = _await_event
        self.addresses: Callable[[str, int, int], list[tuple[Any, ...]]] = _addresses
        self.socket: Callable[[int, int], socket.socket] = _socket
        self.listen: Callable[[tuple[str, int], int, int], socket.socket] = _listen


def _boot_id() -> bytes:
    fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
    try:
        return bytes.fromhex(os.read(fd, 64).decode("ascii").replace("-", ""))
    finally:
        os.close(fd)


def _thread(name: str, run: Callable[[], object]) -> threading.Thread:
    return _Thread(target=run, name=name, daemon=True)


class _Thread(threading.Thread):
    def start(self) -> None:
        try:
            super().start()
        except RuntimeError as error:
            raise _no_thread(error, self.name.split(" ", 2)[-1]) from error


def _no_thread(error: RuntimeError, path: str) -> IOFailureError:
    """Return the error of a thread that the system refused to start."""
    return IOFailureError(
        f"a thread of the log could not be started ({error}): raise the limit of threads "
        "(`ulimit -u`, or the container's limit of pids), or end others, then try again",
        path=path,
        errno=errno.EAGAIN,
    )


def _executor(most: int, path: str) -> Executor:
    from concurrent.futures import Future, ThreadPoolExecutor

    class Threads(ThreadPoolExecutor):
        def submit(self, call: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
            try:
                return super().submit(call, *arguments, **options)
            except RuntimeError as error:
                raise _no_thread(error, path) from error

    return Threads(most, "commitlog")


def _await_event(wait: Wait, engine: Any, seen: int, timeout_s: float) -> object:
    return wait(engine, seen, timeout_s)


def _addresses(name: str, port: int, flags: int) -> list[tuple[Any, ...]]:
    import socket

    return list(socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=flags))


def _socket(family: int, kind: int) -> socket.socket:
    import socket

    return socket.socket(family, kind)


def _listen(where: tuple[str, int], family: int, backlog: int) -> socket.socket:
    import socket

    return socket.create_server(where, family=family, backlog=backlog)


host = Host()
