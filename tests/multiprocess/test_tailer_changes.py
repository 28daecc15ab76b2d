"""Running writers know which tailers are required, even if the process that changes a tailer is
stopped or killed at any step.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import CommitLog
from commitlog.errors import TailerLagError
from commitlog.log.opened import Opened
from commitlog.log.parts import LogParts, parts_of
from commitlog.tail.tailer_folder import tailer_path
from tests.faults.child import Child, Link
from tests.setups import SEGMENT
from tests.steps import die, killed_at, replace_hook
from tests.tail.lagging import FRAME, MAX_LAG, VALUE, append_until_refused, required

Start = Callable[..., Child]
STOPPED, APPENDED, REFUSED = "S", "A", "R"
# Appends after which a writer waits for each required tailer.
HEARD_WITHIN = SEGMENT // 4 // FRAME + MAX_LAG // FRAME + 2


def open_writer(path: Path | str) -> CommitLog:
    return commitlog.open(path, segment_size=SEGMENT, flush="none", on_lag="raise")


def is_held(writer: CommitLog) -> bool:
    try:
        for _ in range(HEARD_WITHIN):
            writer.append(VALUE)
    except TailerLagError:
        return True
    return False


# --- killed ---------------------------------------------------------------------------------------


def no_change(writer: CommitLog) -> None:
    """There is no named tailer."""


def reached(writer: CommitLog) -> None:
    """Appends are at the limit of a required tailer."""
    required(writer, start="end").close()
    append_until_refused(writer)


def reached_and_damaged(writer: CommitLog) -> None:
    reached(writer)
    with open(tailer_path(parts_of(writer).directory, "a"), "r+b") as file:
        file.write(bytes(4096))


ACTS: dict[str, tuple[Callable[[CommitLog], None], Callable[[CommitLog], object]]] = {
    "declare": (no_change, lambda log: required(log, start="end")),
    "evict": (reached, lambda log: log.evict_tailer("a")),
    "declare otherwise": (reached, lambda log: log.tailer("a", required=False)),
    "reset": (reached, lambda log: log.reset_tailer("a", "end")),
    "reset a damaged one": (reached_and_damaged, lambda log: log.reset_tailer("a", "end")),
    "delete": (reached, lambda log: log.delete_tailer("a")),
}


@pytest.mark.parametrize("act", ACTS)
def test_crash_during_tailer_change_leaves_writers_consistent(path: Path, act: str) -> None:
    prepare, change = ACTS[act]
    step, died = 0, True
    while died:
        step += 1
        with open_writer(path.with_name(f"log-{step}")) as writer:
            prepare(writer)

            def open_reader(log: str = writer.path) -> Callable[[], object]:
                reader = commitlog.open(log, "r")
                return lambda: change(reader)

            died = killed_at(step, open_reader)
            states = writer.tailers()
            if not any(state.damage for state in states):  # a damaged tailer may have been required
                assert is_held(writer) == any(state.required for state in states), (
                    f"killed at step {step}"
                )
    assert step > 1


# --- stopped --------------------------------------------------------------------------------------


def declare_and_die(link: Link, path: str) -> None:
    def passed(step: str) -> None:
        if step == "writers notified":
            link.say(STOPPED)
            link.wait()
        elif step == "terms written":
            die()

    reader = commitlog.open(path, "r")
    replace_hook(passed)
    required(reader, start="end")


def test_writer_amid_a_declaration_does_not_wait_and_rechecks(path: Path, start: Start) -> None:
    with open_writer(path) as writer:
        child = start(declare_and_die, str(path))
        child.hear(1)
        assert not is_held(writer)
        assert not is_held(writer)  # a stopped declaration delays no writer
        child.go_on()
        child.wait()
        assert writer.tailers()[0].required
        assert is_held(writer)


def open_slowly(link: Link, path: str) -> None:
    """Stop the open where the log is recovered and no other process is admitted yet."""
    announce = LogParts._announce

    def announce_later(parts: LogParts, opened: Opened) -> None:
        link.say(STOPPED)
        link.wait()
        announce(parts, opened)

    LogParts._announce = announce_later  # type: ignore[method-assign]
    with open_writer(path) as writer:
        link.say(REFUSED if is_held(writer) else APPENDED)


def test_writer_opened_during_a_declaration_is_notified(path: Path, start: Start) -> None:
    open_writer(path).close()
    child = start(open_slowly, str(path))
    child.hear(1)
    with commitlog.open(path, "r") as reader:
        assert not parts_of(reader).engine.cursors.shared
        required(reader, start="end").close()
    child.go_on()
    assert child.hear(1)[0].kind == REFUSED
    child.join()
