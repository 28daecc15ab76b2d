"""An interpreter that has imported what tests need and forks their processes: a new interpreter
that imports the package takes longer than most tests.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests import huge_pages

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 90.0
_MESSAGE_BYTES = 64 << 10
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS
_PRIVATE = 1 << 18 | 1 << 14  # MS_PRIVATE, MS_REC
_starting = threading.Lock()  # threads of the package start processes, too


class Host:
    """The interpreter, which ends with this process.

    Parameters
    ----------
    imports : sequence of str
        The modules that it imports before the first fork.
    flags : sequence of str
        Of the interpreter.
    variables : mapping
        Added to those of this process.
    """

    def __init__(
        self, imports: Sequence[str], flags: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(LIMIT_S)
        with theirs:
            command = [sys.executable, *flags, "-m", "tests.host", str(theirs.fileno()), *imports]
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
                pass_fds=(theirs.fileno(),),
            )

    def start(
        self,
        target: str,
        arguments: Sequence[Any],
        *,
        streams: Mapping[int, int],
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        folder: str | Path = ROOT,
        own_mounts: bool = False,
        own_session: bool = False,
    ) -> int:
        """Fork a child of this process that calls a function, and return its process id.

        Parameters
        ----------
        target : str
            ``module:function``.
        arguments : sequence
            Values that JSON can hold; the child's numbers of `descriptors` come behind them.
        streams : mapping
            The descriptors that the child has as 0, 1 and 2; it has no others of these numbers.
        """
        numbers, sources = list(streams), list(streams.values())
        given = dict(os.environ if environment is None else environment)
        task = [target, arguments, numbers, given, str(folder), own_mounts, own_session]
        message = json.dumps(task).encode()
        assert len(message) < _MESSAGE_BYTES, message
        with _starting:
            _adopt_orphans(True)
            try:
                socket.send_fds(self._channel, [message], [*sources, *descriptors])
                return int(self._channel.recv(32))
            finally:
                _adopt_orphans(False)


@functools.cache
def host_of(
    imports: tuple[str, ...],
    flags: tuple[str, ...] = (),
    variables: tuple[tuple[str, str], ...] = (),
) -> Host:
    """Return this process's host of that kind; start it first."""
    return Host(imports, flags, dict(variables))


def _adopt_orphans(adopts: bool) -> None:
    """Let this process be the parent of grandchildren whose parent ends."""
    assert ctypes.CDLL(None).prctl(_SUBREAPER, int(adopts), 0, 0, 0) == 0


class Hosted(subprocess.Popen[Any]):
    """A process that a host forks, with the interface of `subprocess.Popen`."""

    def __init__(self, host: Host, target: str, arguments: Sequence[Any], **options: Any) -> None:
        self._host = host
        self._target = target
        super().__init__(arguments, **options)

    def _execute_child(self, args: Any, *given: Any) -> None:
        cwd, environment, own_session = given[4], given[5], given[-2]
        stdin, written, read, stdout, read_too, stderr = given[9:15]
        self.pid = self._host.start(
            self._target,
            args,
            streams={
                number: number if found == -1 else found
                for number, found in enumerate((stdin, stdout, stderr))
            },
            environment=environment,
            folder=cwd or os.getcwd(),
            own_session=own_session,
        )
        self._child_created = True
        ends = (stdin, written, read, stdout, read_too, stderr)
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]


def start_code(
    code: str,
    *arguments: object,
    flags: tuple[str, ...] = (),
    imports: tuple[str, ...] = ("commitlog",),
    **options: Any,
) -> Hosted:
    """Start what ``python -c`` with this code and these arguments does."""
    given = [code, *map(str, arguments)]
    return Hosted(host_of(imports, flags), "tests.host:run_code", given, cwd=ROOT, **options)


def run_script(path: str, *arguments: str) -> None:
    """Run a script as an interpreter does; a target for a host."""
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(path)
    runpy.run_path(path, run_name="__main__")


def run_code(code: str, *arguments: str) -> None:
    """Run code as ``python -c`` does; a target for a host. If the interpreter shows warnings, it
    also frees all objects at its end, which may be what a test is about.
    """
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))
    if not sys.warnoptions:
        exit_early(0)


def exit_early(status: int) -> NoReturn:
    """End the process as an interpreter does, but free no memory, which takes a fork longer than
    most commands.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(status)


# --- the interpreter ------------------------------------------------------------------------------


def _fork_orphan() -> int:
    """Fork a child whose parent ends at once; return its process id, and 0 in the child."""
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        child = os.fork()
        if child:
            os.write(writer, str(child).encode())
            os._exit(0)
        os.close(reader)
        os.close(writer)
        return 0
    os.close(writer)
    with os.fdopen(reader) as stream:
        child = int(stream.read())
    os.waitpid(middle, 0)
    return child


def _run(task: Sequence[Any], descriptors: list[int]) -> None:
    """Become the process that a task describes, and call its target."""
    target, arguments, numbers, environment, folder, own_mounts, own_session = task
    for number in range(3):
        os.close(number)
    for number, found in zip(numbers, descriptors, strict=False):
        os.dup2(found, number)
        os.close(found)
    _open_streams()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    library = ctypes.CDLL(None, use_errno=True)
    if own_session:
        os.setsid()
    if own_mounts:
        assert library.unshare(_NEW_MOUNTS) == 0, os.strerror(ctypes.get_errno())
        assert library.mount(b"none", b"/", None, _PRIVATE, None) == 0, ctypes.get_errno()
    if hasattr(library, "shim_begin"):
        library.shim_begin()
    module, _, function = target.partition(":")
    getattr(importlib.import_module(module), function)(*arguments, *descriptors[len(numbers) :])


def _open_streams() -> None:
    """Make the standard streams as a new interpreter does."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            stream = open(  # noqa: SIM115
                number,
                "w" if number else "r",
                buffering=1 if number == 2 or os.isatty(number) else -1,
                errors="backslashreplace" if number == 2 else None,
                closefd=False,
            )
        except OSError:  # the process has none
            stream = None
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    huge_pages.collapse()
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 16)
        if not message:
            return
        pid = _fork_orphan()
        if pid == 0:
            channel.close()
            break
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(str(pid).encode())
    # Nothing of the host is below the target on the stack, so exceptions end the process as usual.
    _run(json.loads(message), descriptors)


if __name__ == "__main__":
    main()
