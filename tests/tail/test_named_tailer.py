"""Named tailers: where they go on after a restart, an exception, a kill, a deletion; who reads under a name; what is durable."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog import Batch, CommitLog, Tailer
from commitlog.errors import (
    ClosedError,
    CorruptTailerError,
    ForkedError,
    InvalidOptionError,
    PositionError,
    ReadOnlyError,
    TailerInUseError,
    TailerNotFoundError,
)
from commitlog.tail import tailer_folder
from commitlog.tail.tailer_folder import FOLDER
from tests.setups import HEADER, SEGMENT, Logs, Setup, values
from tests.steps import killed_at

InChild = Callable[[Callable[[], Any]], Any]


def filled(logs: Logs, count: int = 10, **options: Any) -> CommitLog:
    log = logs.open(**options)
    log.append_many([b"%d" % index for index in range(count)])
    return log


def read(tailer: Tailer, count: int) -> list[bytes]:
    records = [tailer.read() for _ in range(count)]
    return [record.value for record in records if record is not None]


# --- going on ------------------------------------------------------------------------------------------------------------


def test_restart_of_named_tailers_a_and_b(logs: Logs) -> None:
    """Chronicle's: of two tailers one has read three records and the other one; each goes on behind what it read."""
    log = filled(logs)
    assert read(log.tailer("a"), 3) == [b"0", b"1", b"2"]
    assert read(log.tailer("b"), 1) == [b"0"]
    log.close()
    log = logs.open()
    assert read(log.tailer("a"), 1) == [b"3"]
    assert read(log.tailer("b"), 1) == [b"1"]
    assert values(log) == [b"%d" % index for index in range(10)]


def test_a_place_is_kept_in_every_setup(logs: Logs, setup: Setup) -> None:
    log = logs.open_as(setup)
    log.append_many([b"%d" % index for index in range(5000)])
    log.commit()
    with log.tailer("a") as tailer:
        for _ in range(4000):
            tailer.read()
    log.close()
    log = logs.open_as(setup)
    assert list(log.tailer("a").values()) == [b"%d" % index for index in range(4000, 5000)]


READS: dict[str, Callable[[Tailer], Any]] = {
    "read": lambda tailer: [tailer.read() for _ in range(3)],
    "read_batch": lambda tailer: tailer.read_batch(3),
    "a batch after another": lambda tailer: (tailer.read_batch(1), tailer.read_batch(2)),
    "read with a timeout": lambda tailer: [tailer.read(timeout=1) for _ in range(3)],
    "seek": lambda tailer: tailer.seek(sequence=3),
    "seek by key": lambda tailer: tailer.seek(key=b"3"),
    "search": lambda tailer: tailer.search(lambda record: int(record.value), 3),
    "to_end": lambda tailer: (tailer.to_end(), tailer.seek(sequence=3)),
    "backward": lambda tailer: (tailer.seek(sequence=4), setattr(tailer, "direction", "backward"), tailer.read()),
    "reading": lambda tailer: [_read_in_context(tailer) for _ in range(3)],
    "reading_batch": lambda tailer: _batch_in_context(tailer, 3),
    "loop to a break": lambda tailer: _loop(tailer, 4),
    "loop of values": lambda tailer: _loop(tailer.values(), 4),
    "loop of follow": lambda tailer: _loop(tailer.follow(), 4),
    "loop at the recorded pace": lambda tailer: _loop(tailer.follow(speed=1000.0), 4),
    "loop of a coroutine": lambda tailer: asyncio.run(_loop_in_coroutine(tailer, 4)),
    "two loops": lambda tailer: (_loop(tailer, 2), _loop(tailer, 3)),
    "a loop, then a call": lambda tailer: (_loop(tailer, 3), tailer.read()),
}


def _read_in_context(tailer: Tailer) -> None:
    with tailer.reading() as record:
        assert record is not None


def _batch_in_context(tailer: Tailer, count: int) -> None:
    with tailer.reading_batch(count) as batch:
        assert len(batch) == count


def _loop(records: Any, count: int) -> None:
    """Through as many records, and out of the loop in the last one."""
    for index, _ in enumerate(records, 1):
        if index == count:
            break


async def _loop_in_coroutine(tailer: Tailer, count: int) -> None:
    index = 0
    async for _ in tailer.follow():
        index += 1
        if index == count:
            break


@pytest.mark.parametrize("way", READS)
def test_each_way_of_reading_keeps_its_place(logs: Logs, way: str) -> None:
    log = logs.open()
    log.append_many([b"%d" % index for index in range(10)], keys=[b"%d" % index for index in range(10)])
    with log.tailer("a") as tailer:
        READS[way](tailer)
    assert read(log.tailer("a"), 1) == [b"3"]


def test_a_loop_that_ran_to_the_end_leaves_nothing(logs: Logs) -> None:
    log = filled(logs)
    for name, loop in (("a", lambda tailer: tailer), ("b", lambda tailer: tailer.values()), ("c", lambda tailer: tailer.follow(timeout=0))):
        with log.tailer(name) as tailer:
            assert len(list(loop(tailer))) == 10
        with log.tailer(name) as tailer:
            assert tailer.read() is None


def test_a_break_gives_the_last_record_again(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    for record in tailer:
        if record.value == b"4":
            break
    assert read(tailer, 1) == [b"4"]
    assert [record.value for record in tailer] == [b"5", b"6", b"7", b"8", b"9"]


def test_read_inside_a_loop_goes_on(logs: Logs) -> None:
    tailer = filled(logs).tailer("a")
    pairs = []
    for record in tailer:
        with tailer.reading() as following:
            assert following is not None
            pairs.append((record.value, following.value))
    assert pairs == [(b"0", b"1"), (b"2", b"3"), (b"4", b"5"), (b"6", b"7"), (b"8", b"9")]
    assert tailer.read() is None


def test_an_exception_in_a_loop_gives_the_same_record_again(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")

    def fail_on(records: Any) -> None:
        for _record in records:
            raise ZeroDivisionError

    ways: list[Callable[[], Any]] = [lambda: tailer, tailer.values, tailer.follow, tailer.striding]
    for way in ways:
        tailer.seek(sequence=0)
        with pytest.raises(ZeroDivisionError):
            fail_on(way())
        again = next(iter(way()))
        assert (again if isinstance(again, bytes) else again.value) == b"0"
        with tailer.reading() as record:
            assert record is not None
            assert record.value == b"0"


def test_without_a_name_a_loop_goes_on_where_it_was_left(logs: Logs) -> None:
    tailer = filled(logs).tailer()
    for record in tailer:
        if record.value == b"4":
            break
    assert next(iter(tailer)).value == b"5"


@pytest.mark.parametrize("name", ["a", None])
def test_an_exception_in_reading_gives_the_same_record_again(logs: Logs, name: str | None) -> None:
    """Chronicle's: what was not dealt with comes again, in this process and after a restart."""
    log = filled(logs)
    tailer = log.tailer(name)

    def fail_with(context: Any, expected: list[bytes]) -> None:
        with context as what:
            assert (what.values() if isinstance(what, Batch) else [what.value]) == expected
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            fail_with(tailer.reading(), [b"0"])
    with pytest.raises(ZeroDivisionError):
        fail_with(tailer.reading_batch(4), [b"0", b"1", b"2", b"3"])
    with tailer.reading() as record:
        assert record is not None
        assert record.value == b"0"
    with tailer.reading_batch(2) as batch:
        assert batch.values() == [b"1", b"2"]
    if name is not None:
        with pytest.raises(KeyboardInterrupt), tailer.reading():
            raise KeyboardInterrupt
        tailer.close()
        tailer = log.tailer(name)
    assert read(tailer, 1) == [b"3"]


def test_reading_at_the_end_gives_nothing_and_may_wait(logs: Logs) -> None:
    tailer = logs.open().tailer("a")
    with tailer.reading(timeout="1ms") as record:
        assert record is None
    with tailer.reading_batch(timeout="1ms") as batch:
        assert len(batch) == 0


def test_the_direction_is_not_kept(logs: Logs) -> None:
    log = filled(logs)
    with log.tailer("a", direction="backward") as tailer:
        assert read(tailer, 2) == [b"9", b"8"]
    with log.tailer("a") as tailer:
        assert tailer.direction == "forward"
        assert read(tailer, 1) == [b"8"]


def test_a_new_name_starts_where_it_is_told_and_an_old_one_where_it_stood(logs: Logs) -> None:
    log = filled(logs)
    with log.tailer("a", start="end") as tailer:
        assert tailer.read() is None
        log.append(b"new")
        assert read(tailer, 1) == [b"new"]
    with log.tailer("a", start="first") as tailer:
        assert tailer.read() is None
        assert (tailer.name, log.tailer().name) == ("a", None)


def test_a_place_at_the_end_of_a_segment_is_found_again(logs: Logs) -> None:
    log = logs.open()
    log.append(b"x")
    log.roll()
    with log.tailer("a") as tailer:
        assert len(list(tailer)) == 1
        assert tailer.read() is None
    with log.tailer("a") as tailer:
        log.append(b"y")
        assert read(tailer, 1) == [b"y"]
        assert tailer.position > SEGMENT + HEADER


def test_a_seek_to_a_cycle_is_kept(logs: Logs) -> None:
    log = filled(logs, roll_cycle="DAILY")
    with log.tailer("a") as tailer:
        read(tailer, 4)
        assert tailer.seek_cycle(log.cycles()[0].number)
    assert read(log.tailer("a"), 1) == [b"0"]


def test_a_seek_in_vain_moves_nothing(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    read(tailer, 2)
    with pytest.raises(PositionError):
        tailer.seek(12345)
    assert tailer.seek(key=b"none") is False
    tailer.close()
    assert read(log.tailer("a"), 1) == [b"2"]


# --- one reader a name ---------------------------------------------------------------------------------------------------


def test_a_second_reader_is_refused_and_told_of_the_first(logs: Logs, in_child: InChild) -> None:
    log = filled(logs)
    first = log.tailer("a")
    second = logs.open(mode="r")

    def in_another_process() -> tuple[str, str | None]:
        with commitlog.open(log.path, "r") as reader:
            try:
                reader.tailer("a")
            except TailerInUseError as error:
                return str(error), pickle.loads(pickle.dumps(error)).holder
        return "", None

    for handle in (log, second):
        with pytest.raises(TailerInUseError, match="'a' is read by this very process already"):
            handle.tailer("a")
    message, holder = in_child(in_another_process)
    assert f"process {os.getpid()} (" in message
    assert holder is not None
    assert str(os.getpid()) in holder
    first.close()
    assert read(second.tailer("a"), 1) == [b"0"]


def test_a_name_is_given_back_with_the_tailer_or_the_log(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    del tailer
    kept = log.tailer("a")
    reader = logs.open(mode="r")
    log.close()
    assert read(reader.tailer("a"), 1) == [b"0"]
    kept.close()


def test_a_closed_tailer_reads_no_more(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    tailer.close()
    tailer.close()
    for call in (tailer.read, tailer.read_batch, lambda: next(tailer), lambda: tailer.seek("first"), lambda: next(tailer.values())):
        with pytest.raises(ClosedError, match="the tailer is closed"):
            call()
    other = log.tailer("a")
    read(other, 2)
    assert log.tailers()[0].position == other.position


def test_the_end_of_a_log_ends_its_loops_and_its_names(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    coming = tailer.follow()
    assert next(coming).value == b"0"
    log.close()
    assert list(coming) == []
    assert read(logs.open().tailer("a"), 1) == [b"0"]


def test_the_child_of_a_fork_leaves_its_parents_place_alone(logs: Logs, in_child: InChild) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    read(tailer, 2)

    def child() -> list[str]:
        refused = []
        for call in (tailer.read, lambda: list(tailer)):
            try:
                call()
            except ForkedError as error:
                refused.append(str(error))
        tailer.close()
        try:
            log.tailer("a")
        except TailerInUseError as error:
            refused.append(str(error))
        return refused

    assert len(in_child(child)) == 3
    assert read(tailer, 1) == [b"2"]


def test_when_a_reader_is_killed_another_takes_over(logs: Logs, until: Callable[..., None]) -> None:
    log = filled(logs, 1000)
    child = os.fork()
    if child == 0:
        with commitlog.open(log.path, "r") as reader:
            tailer = reader.tailer("a")
            read(tailer, 10)
            signal.pause()
    until(lambda: any(state.owner for state in log.tailers()) and log.tailers()[0].position == log.index.position_of(10))
    assert log.tailers()[0].pid == child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert read(log.tailer("a"), 1) == [b"10"]


def test_a_kill_while_reading_redelivers_one_record_at_most(logs: Logs) -> None:
    """The child says what it read before it asks for more, and dies at no particular instant."""
    log = filled(logs, 5000)
    for _ in range(5):
        came, say = os.pipe()
        fcntl.fcntl(say, fcntl.F_SETPIPE_SZ, 4096)  # so that the child waits for the parent before it has read all
        child = os.fork()
        if child == 0:
            with commitlog.open(log.path, "r") as reader:
                for record in reader.tailer("a"):
                    os.write(say, b"%8d" % record.position)
            os._exit(0)
        os.close(say)
        for _ in range(300):
            os.read(came, 8)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(came, "rb") as stream:
            said = stream.read()
        last = int(said[len(said) - 8 - len(said) % 8 :][:8]) if len(said) >= 8 else None
        with log.tailer("a") as tailer:
            record = tailer.read()
            assert record is not None
            assert last is None or record.position in (last, last + 24)


@pytest.mark.parametrize("act", ["make", "mend"])
def test_a_kill_at_any_step_leaves_a_whole_file_or_none(logs: Logs, act: str) -> None:
    log = filled(logs)
    path = Path(log.path)

    def prepare() -> Callable[[], object]:
        child = commitlog.open(log.path, "r")
        if act == "make":
            return lambda: child.tailer("a")
        return lambda: child.reset_tailer("a")

    step = 1
    while True:
        (path / FOLDER).mkdir(exist_ok=True)
        if act == "mend":
            (path / FOLDER / "a").write_bytes(b"damaged")
        elif (path / FOLDER / "a").exists():
            log.delete_tailer("a")
        if not killed_at(step, prepare):
            break
        assert [state.damage for state in log.tailers()] in ([], [None]) or act == "mend"
        if act == "mend" and log.tailers():
            log.reset_tailer("a")
        assert read(log.tailer("a"), 1) == [b"0"]
        step += 1
    assert step > 4
    tailer_folder.sweep(log.directory)
    assert os.listdir(path / FOLDER) == ["a"]


# --- list, reset, delete -------------------------------------------------------------------------------------------------


def test_the_list_says_where_each_stands(logs: Logs) -> None:
    log = filled(logs)
    assert log.tailers() == []
    a = log.tailer("a")
    log.tailer("b", required=True).close()
    read(a, 4)
    (first, second) = log.tailers()
    assert (first.name, first.position, first.required, first.pid) == ("a", a.position, False, os.getpid())
    assert first.lag_bytes == log.tail_position - a.position
    assert first.owner == "this very process"
    assert (second.name, second.position, second.required, second.owner) == ("b", HEADER, True, None)
    assert 0 < first.created_ns < first.saved_ns + 20_000_000  # whose clock is the coarse one, which stands still for some ms
    assert logs.open(mode="r").tailers() == [first, second]


def test_reset_and_delete(logs: Logs) -> None:
    log = filled(logs)
    tailer = log.tailer("a")
    read(tailer, 4)
    for call in (lambda: log.reset_tailer("a"), lambda: log.delete_tailer("a")):
        with pytest.raises(TailerInUseError):
            call()
    tailer.close()
    where: Any
    for where, value in (("first", [b"0"]), ("end", []), (log.index.position_of(7), [b"7"])):
        log.reset_tailer("a", where)
        with log.tailer("a") as tailer:
            assert read(tailer, 1) == value
    with pytest.raises(PositionError):
        log.reset_tailer("a", 12345)
    log.delete_tailer("a")
    assert log.tailers() == []
    for refused in (lambda: log.reset_tailer("a"), lambda: log.delete_tailer("a"), lambda: log.evict_tailer("a")):
        with pytest.raises(TailerNotFoundError, match="'a'"):
            refused()
    with log.tailer("a") as tailer:
        assert read(tailer, 1) == [b"0"]


@pytest.mark.parametrize("name", ["", "a/b", "..", 7])
def test_a_wrong_name_is_refused_everywhere(logs: Logs, name: Any) -> None:
    log = logs.open()
    for call in (log.tailer, log.reset_tailer, log.delete_tailer, log.evict_tailer):
        with pytest.raises(InvalidOptionError, match="name must be"):
            call(name)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "a", "required": 1}, "required must be True, False or None"),
    ({"name": "a", "required": "yes"}, "required must be"),
    ({"required": True}, "required is for a tailer with a name"),
    ({"durable": True}, "durable is for a tailer with a name"),
    ({"name": "a", "durable": "fast"}, "durable must be a duration"),
    ({"name": "a", "durable": -1}, "durable must be a duration"),
    ({"name": "a", "max_lag": "1MiB"}, "say required=True, too"),
    ({"name": "a", "required": False, "max_lag": "1MiB"}, "say required=True, too"),
    ({"name": "a", "required": True, "max_lag": "much"}, "max_lag must be a size"),
    ({"name": "a", "required": True, "max_lag": 0}, "max_lag must be at least one byte"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=str)
def test_wrong_options_are_refused_and_leave_no_file(logs: Logs, options: dict[str, Any], message: str) -> None:
    log = logs.open()
    with pytest.raises(InvalidOptionError, match=message):
        log.tailer(**options)
    assert not (Path(log.path) / FOLDER).exists()


# --- damage, and a log that changed --------------------------------------------------------------------------------------


def test_a_damaged_file_harms_nobody_else(logs: Logs) -> None:
    log = filled(logs)
    log.tailer("a").close()
    log.tailer("b").close()
    (Path(log.path) / FOLDER / "a").write_bytes(b"garbage")
    with pytest.raises(CorruptTailerError, match="reset_tailer"):
        log.tailer("a")
    assert [state.damage for state in log.tailers()] == ["it has 7 bytes and not 4096", None]
    assert read(log.tailer("b"), 1) == [b"0"]
    log.append(b"on")
    log.reset_tailer("a", "end")
    assert log.tailer("a").read() is None


def test_what_was_deleted_under_a_place_is_a_clear_gap(logs: Logs) -> None:
    log = logs.open(flush="sync")
    for turn in range(4):
        log.append(b"%d" % turn)
        log.roll()
    with log.tailer("a") as tailer:
        assert read(tailer, 1) == [b"0"]
    assert log.delete_before(3 * SEGMENT)
    log.close()
    log = logs.open()
    tailer = log.tailer("a")
    with pytest.raises(PositionError, match="were deleted") as caught:
        tailer.read()
    assert caught.value.first_position == log.first_position - HEADER
    tailer.to_start()
    assert read(tailer, 1) == [b"3"]


def test_a_place_behind_the_end_of_a_cut_log_is_moved_to_it(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    """Records that a crash took back had been read; others come in their place, and are read, too."""
    log = filled(logs)
    log.close()
    path = log.path
    with commitlog.open(path) as log, log.tailer("a") as tailer:
        list(tailer)
    file = min(Path(path).glob("*.seg"))
    content = bytearray(file.read_bytes())
    content[HEADER + 5 * 24 :] = bytes(len(content) - HEADER - 5 * 24)
    file.write_bytes(content)
    (Path(path) / "checkpoint").unlink()
    (Path(path) / "cursors").unlink()
    with commitlog.open(path) as log:
        log.append_many([b"new"] * 5)
        assert list(log.tailer("a").values()) == [b"new"] * 5
    assert "tailer 'a'" in caplog.text


def test_a_reader_before_the_recovery_stands_at_the_end_that_it_sees(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    log = filled(logs)
    with log.tailer("a") as tailer:
        list(tailer)
    log.close()
    path = Path(log.path)
    file = min(path.glob("*.seg"))
    content = bytearray(file.read_bytes())
    content[HEADER + 5 * 24 :] = bytes(len(content) - HEADER - 5 * 24)
    file.write_bytes(content)
    (path / "checkpoint").unlink()
    (path / "cursors").unlink()
    reader = logs.open(mode="r")
    tailer = reader.tailer("a")
    assert tailer.position == HEADER + 5 * 24
    assert "goes on there" in caplog.text


# --- permissions ------------------------------------------------------------------------------------------------------


def test_a_reader_of_a_log_that_it_may_not_write_keeps_no_place(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(logs)
    real = os.mkdir

    def refuse(path: Any, *arguments: Any, **options: Any) -> None:
        if path == FOLDER:
            raise PermissionError(13, os.strerror(13))
        real(path, *arguments, **options)

    monkeypatch.setattr(os, "mkdir", refuse)
    reader = logs.open(mode="r")
    with pytest.raises(ReadOnlyError, match="read without a name"):
        reader.tailer("a")
    assert len(list(reader.tailer())) == 10
    assert log.tailers() == []


def test_a_reader_keeps_its_place_in_a_log_that_is_closed(logs: Logs) -> None:
    filled(logs).close()
    with logs.open(mode="r") as reader, reader.tailer("a") as tailer:
        read(tailer, 3)
    with logs.open(mode="r") as reader:
        assert read(reader.tailer("a"), 1) == [b"3"]
