"""Run a case of a failing system call, and check what it does to the log.

A worker process under the shim runs the cases one after the other.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import LogFailedError
from tests.faults import image, shim
from tests.faults.child import Child, Link
from tests.faults.failing_cases import BY_NAME
from tests.faults.failing_scene import (
    FAILS,
    IGNORED,
    OPTIONS,
    RAISES,
    TO_ROLL,
    VALUE,
    Case,
    Scene,
)  # fmt: skip
from tests.faults.writers import SEGMENT_SIZE, close_log, open_log
from tests.setups import tuned

SUCCEEDED, REFUSED = "S", "N"


def run(case: Case, scene: Scene) -> None:
    """Let the calls fail during the act, then check what is acknowledged afterwards by this handle,
    by another process and by the next open.
    """
    log, made = open_log(str(scene.path), case.pool, OPTIONS | case.options)
    scene.append(log, 3)
    if case.before is not None:
        case.before(scene, log)
    if case.closed:
        close_log(log, made)
    scene.arm(*case.faults)
    try:
        error = _error_of(lambda: case.act(scene, log))
    finally:
        scene.heal()
    scene.check_met()
    _check_error(case, error)
    if not log.closed:
        (_check_failed if case.effect == FAILS else _check_going_on)(
            scene, log, beside=case.pool is None
        )
        if made is not None:
            made.close()
    _check_reopened(scene, case.options.get("segment_size", SEGMENT_SIZE))


def _error_of(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - a bare OSError fails the case
        return error
    return None


def _check_error(case: Case, error: BaseException | None) -> None:
    expected = {FAILS: LogFailedError, RAISES: case.error, IGNORED: type(None)}[case.effect]
    assert type(error) is expected, f"{error!r}"
    assert error is None or (isinstance(error, OSError) and error.errno == case.faults[0].cause)


def _check_failed(scene: Scene, log: CommitLog, *, beside: bool) -> None:
    """Check that nothing is acknowledged any more, although every call would succeed."""
    assert log.stats().failed is not None
    attempts: list[Callable[[], object]] = [
        lambda: log.append(VALUE),
        lambda: log.append(VALUE, sync=True),
        lambda: log.append_many([VALUE] * 3),
        lambda: log.claim(10),
        log.commit,
        log.flush,
    ]
    for attempt in [*attempts, *attempts]:
        with pytest.raises(LogFailedError):
            attempt()
    if beside:
        assert beside_outcome(scene.path) == REFUSED
    with pytest.raises(LogFailedError):
        log.close()
    assert log.closed


def _check_going_on(scene: Scene, log: CommitLog, *, beside: bool) -> None:
    assert log.stats().failed is None
    scene.append(log, TO_ROLL)
    if beside:
        assert beside_outcome(scene.path) == SUCCEEDED
    log.close()


def beside_outcome(path: Path) -> str:
    """Return the outcome of a synced append by another process."""
    child = Child(append_beside, str(path))
    kind = child.hear(1)[0].kind
    child.wait()
    child.end()
    return kind


def append_beside(link: Link, path: str) -> None:
    try:
        with commitlog.open(path, **tuned(OPTIONS)) as log:
            log.append(VALUE, sync=True)
    except LogFailedError:
        link.say(REFUSED)
    else:
        link.say(SUCCEEDED)


def _check_reopened(scene: Scene, segment_size: int) -> None:
    """Check that the next open finds every acknowledged record and appends."""
    log, _ = open_log(str(scene.path), None, OPTIONS | {"segment_size": segment_size})
    assert log.stats().failed is None
    scene.append(log, TO_ROLL)
    found = {record.position for record in log.tailer()}
    assert found.issuperset(scene.acknowledged)
    log.close()
    assert not image.temporaries(scene.path)


# --- the worker -----------------------------------------------------------------------------------


def serve(link: Link, directory: str) -> None:
    """Run the case named by the file `wanted` each time the parent asks for it, and write its
    traceback to `outcome`.
    """
    state = shim.own_state()
    number = 0
    while True:
        link.wait()
        number += 1
        wanted, outcome = Path(directory, "wanted"), Path(directory, "outcome")
        path = Path(directory, str(number), "log")
        path.parent.mkdir()
        try:
            run(BY_NAME[wanted.read_text()], Scene(path, state))
        except BaseException:  # noqa: BLE001 - the parent raises it
            outcome.write_text(traceback.format_exc())
        else:
            outcome.write_text("")
        link.say("D")
