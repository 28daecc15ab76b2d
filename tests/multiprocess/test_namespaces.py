"""Processes in another pid namespace, such as containers: locks show which process lives, and
foreign pids are not used.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.errors import LogLockedError, OpenTimeoutError
from commitlog.log.parts import parts_of
from commitlog.segment.lock_file import LockFile
from tests.faults.child import Child, Link
from tests.faults.writers import CLAIMED, OPENED, How, open_log, value_of, write_some

Start = Callable[..., Child]
AN_HOUR = 3600.0
_UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_AS_USER = (
    "unshare",
    "--user",
    "--map-root-user",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)


@functools.cache
def another_namespace() -> tuple[str, ...]:
    """Return the command that starts a process in its own pid namespace; empty if that is not
    permitted.
    """
    for launcher in (_UNSHARE, _AS_USER):
        try:
            done = subprocess.run(
                [*launcher, "true"], capture_output=True, text=True, check=False, timeout=100
            )
        except FileNotFoundError as error:
            print(f"no other pid namespace here: {error}")
            return ()
        if done.returncode == 0:
            return launcher
    print(f"no other pid namespace here: {done.stderr.strip()}")
    return ()


def kill_inside(child: Child) -> None:
    """Kill the process in the namespace; its `unshare` parent ends with it."""
    os.kill(int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text()), signal.SIGKILL)
    assert child.wait() != 0


def claim_inside(link: Link, path: str, size: int) -> None:
    """Report the pid inside the namespace, leave a claim open, and wait."""
    log, _ = open_log(path, None, {"flush": "none", "claim_timeout": AN_HOUR})
    claim = log.claim(size)
    link.say(CLAIMED, os.getpid(), parts_of(log).engine.slot or 0, claim.position)
    link.wait()
    with claim:
        claim.buffer[:] = b"x" * size
    link.say(OPENED)
    link.wait()


def test_foreign_namespace_claim_lasts_as_long_as_its_process(path: Path, start: Start) -> None:
    """The owner's pid there is about 1; here that pid is a process that never dies, or none."""
    launcher = another_namespace()
    if not launcher:
        return
    with commitlog.open(path, segment_size=1 << 16, flush="none", claim_timeout=AN_HOUR) as log:
        children = [start(claim_inside, str(path), 100, launcher=launcher) for _ in range(2)]
        pids = [child.hear(1)[0].session for child in children]
        assert all(inside != child.pid for inside, child in zip(pids, children, strict=True))
        log.append(b"later")
        tailer = log.tailer()
        assert tailer.read(timeout=0.1) is None, "both live"
        kill_inside(children[1])
        children[0].go_on()
        assert [getattr(tailer.read(timeout=60), "value", None) for _ in range(2)] == [
            b"x" * 100,
            b"later",
        ]


def read_inside(link: Link, path: str) -> None:
    """Wait for the record behind a claim made outside."""
    with commitlog.open(path, segment_size=1 << 16, flush="none", claim_timeout=AN_HOUR) as log:
        tailer = log.tailer()
        link.say(OPENED, int(tailer.read(timeout=0.1) is None))
        record = tailer.read(timeout=60)
        link.say(OPENED, int(record is not None and record.value == b"later"))


def test_reader_in_a_namespace_sees_outside_owner_live_and_die(path: Path, start: Start) -> None:
    launcher = another_namespace()
    if not launcher:
        return
    with commitlog.open(path, segment_size=1 << 16, flush="none", claim_timeout=AN_HOUR) as log:
        owner = start(claim_inside, str(path), 100)
        owner.hear(1)
        log.append(b"later")
        reader = start(read_inside, str(path), launcher=launcher)
        assert reader.hear(1)[0].session == 1
        owner.kill()
        assert reader.hear(1)[0].session == 1


HOLDERS: dict[str, dict[str, Any] | None] = {
    "mapped": None,
    "pooled": {},
    "shm": {"backing": "shm"},
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_lock_error_says_that_holder_is_in_another_namespace(
    path: Path, holder: str, start: Start
) -> None:
    """The error is raised at once, not after `wait_for_log`, and does not name a local process of
    the same pid.
    """
    launcher = another_namespace()
    if not launcher:
        return
    child = start(
        write_some, str(path), 0, 5, How(HOLDERS[holder], {"flush": "none"}), launcher=launcher
    )
    child.hear(6)
    with pytest.raises(LogLockedError, match="in another pid namespace") as caught:
        open_log(str(path), {}, {"wait_for_log": 5})
    assert "in another pid namespace" in (caught.value.holder or "")
    told = subprocess.run(
        [sys.executable, "-m", "commitlog.tools.cli", "info", "--json", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [writer["name"] for writer in json.loads(told.stdout)["writers"]] == [
        "in another pid namespace"
    ]
    child.go_on()
    child.join()


def test_killed_pooled_holder_in_another_namespace_is_recovered(path: Path, start: Start) -> None:
    """The holder's note stays in the `lock` file, and must not count as proof of life."""
    launcher = another_namespace()
    if not launcher:
        return
    child = start(
        write_some, str(path), 0, 5, How({"backing": "shm"}, {"flush": "none"}), launcher=launcher
    )
    child.hear(6)
    kill_inside(child)
    directory = os.open(path, os.O_RDONLY)
    recovering = LockFile(directory)
    assert recovering.acquire("exclusive")
    # The error must not name a local process with the pid of the dead one.
    with pytest.raises(OpenTimeoutError):
        commitlog.open(path, wait_for_log=0.05)
    recovering.close()
    os.close(directory)
    with commitlog.open(path) as log:
        assert list(log.tailer().values()) == [value_of(0, index) for index in range(5)]
