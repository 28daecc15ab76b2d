"""A copy and its primary compare their frames at each meeting."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.errors import FencedError, ReplicationError
from commitlog.log.open_log import view_of
from commitlog.log.parts import parts_of
from commitlog.network.replication import comparison, wire
from commitlog.network.replication.comparison import first_difference
from commitlog.network.replication.digests import Digests
from commitlog.network.replication.served import Served
from tests.copies import copy_log
from tests.network.replication.scene import LIMIT_S, SEGMENT, check_same, copy_of, fill, records


def append(path: Path, values: list[bytes]) -> int:
    """Append records, and close the log; return its end."""
    with commitlog.open(path, segment_size=SEGMENT) as log:
        for value in values:
            log.append(value)
        return log.tail_position


def follow_to(primary: Path, copy: Path, end: int) -> None:
    """Let a copy follow a log until it has everything below a position."""
    with (
        replication.serve(primary) as server,
        replication.follow(server.url(), copy) as follower,
    ):
        assert follower.wait(end, LIMIT_S)


def restored_beside_its_copy(folder: Path, old: list[bytes], new: list[bytes]) -> int:
    """Make a log that was restored and went on beside what its copy has; return where."""
    append(folder / "orders", [b"one", b"two"])
    copy_log(folder / "orders", folder / "backup")
    with commitlog.open(folder / "backup", "r") as log:
        start = log.committed_position
    follow_to(folder / "orders", folder / "copy", append(folder / "orders", old))
    shutil.rmtree(folder / "orders")
    copy_log(folder / "backup", folder / "orders")
    append(folder / "orders", new)
    return start


@pytest.mark.parametrize("count", [1, 100, 4000])
def test_restored_primary_past_its_copy_is_refused(count: int, tmp_path: Path) -> None:
    start = restored_beside_its_copy(tmp_path, [b"old %03d"] * count, [b"new %03d"] * (count + 9))
    before = records(tmp_path / "copy")
    with (
        replication.serve(tmp_path / "orders") as server,
        pytest.raises(FencedError, match="restored from a backup or is a clone") as caught,
    ):
        replication.follow(server.url(), tmp_path / "copy")
    assert caught.value.position == start
    assert records(tmp_path / "copy") == before
    assert server.followers() == {}


def test_equal_last_records_do_not_hide_other_ones(tmp_path: Path) -> None:
    """Records of one time and content can be the same in both logs by chance."""
    with commitlog.open(tmp_path / "a", segment_size=SEGMENT) as log:
        fill(log, 200)
        end = log.tail_position
    copy_log(tmp_path / "a", tmp_path / "b")
    with commitlog.open(tmp_path / "b", "r") as log:
        positions = [position for position, *_ in records(tmp_path / "b")]
        parts = parts_of(log)
        size = parts.directory.segment_size
        other = positions[20]
        with parts.directory.opened_segment(other // size, writable=True) as segment:
            cell = segment.read(other % size, 8)
            segment.write(other % size, cell[:4] + bytes(4))
        mine, theirs = Digests(view_of(log)), _digests_of(tmp_path / "a")
        numbers = parts.directory.segment_numbers()
        found = first_difference(mine, theirs, numbers, end, size)
    assert found == other


def _digests_of(path: Path) -> comparison.Ask:
    def ask(ends: list[tuple[int, int]]) -> list[tuple[int, int] | None]:
        with commitlog.open(path, "r") as log:
            digests = Digests(view_of(log))
            return [digests.of(*each) for each in ends]

    return ask


def test_comparison_asks_in_steps_and_goes_back_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "_STEP_BYTES", 8 << 10)
    monkeypatch.setattr(comparison, "_COMPARED_BYTES", 2 * SEGMENT)
    with commitlog.open(tmp_path / "a", segment_size=SEGMENT) as log:
        while log.tail_position < 5 * SEGMENT + 9000:
            log.append(bytes(3000))
        end = log.tail_position
    ask, asked = _digests_of(tmp_path / "a"), []

    def counted(ends: list[tuple[int, int]]) -> list[tuple[int, int] | None]:
        asked.append(ends)
        return ask(ends)

    with commitlog.open(tmp_path / "a", "r") as log:
        directory = parts_of(log).directory
        numbers, digests = directory.segment_numbers(), Digests(view_of(log))
        assert first_difference(digests, counted, numbers, end, SEGMENT) is None
    assert {number for ends in asked for number, _ in ends} == {3, 4, 5}
    assert all(len(ends) <= 1 for ends in asked)


def test_bytes_of_a_late_owner_in_a_skip_do_not_count(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "a", segment_size=SEGMENT) as log:
        log.append(b"one")
        with contextlib.suppress(KeyError), log.claim(64):
            raise KeyError  # rolls the claim back
        log.append(b"two")
        log.flush()
        end = log.tail_position
        digests = Digests(view_of(log))
        before = digests.of(0, end)
        skip = records(tmp_path / "a")[1][0] - 16
        with parts_of(log).directory.opened_segment(0, writable=True) as segment:
            segment.write(skip, b"late owner bytes")
        assert Digests(view_of(log)).of(0, end) == before
    assert before is not None
    assert before[0] == end


def test_digest_goes_on_where_it_ended(tmp_path: Path) -> None:
    with commitlog.open(tmp_path / "a", segment_size=SEGMENT) as log:
        fill(log, 50)
        digests = Digests(view_of(log))
        middle = digests.of(0, 10_000)
        whole = digests.of(0, log.tail_position)
        assert Digests(view_of(log)).of(0, log.tail_position) == whole
        assert digests.of(0, 10_000) == middle  # from the start again
        assert middle is not None
        assert whole is not None
        assert HEADER_SIZE < middle[0] <= 10_000 < whole[0] == log.tail_position
        assert digests.of(99, 10_000) is None


def test_running_follower_refuses_a_restored_primary(tmp_path: Path) -> None:
    end = append(tmp_path / "orders", [b"one"])
    copy_log(tmp_path / "orders", tmp_path / "backup")
    with _served(tmp_path / "orders") as server:
        follower = replication.follow(server.url(), tmp_path / "copy")
        end = append(tmp_path / "orders", [b"old"])
        assert follower.wait(end, LIMIT_S)
    shutil.rmtree(tmp_path / "orders")
    copy_log(tmp_path / "backup", tmp_path / "orders")
    append(tmp_path / "orders", [b"new", b"next"])
    with (
        _served(tmp_path / "orders", server.port),
        pytest.raises(FencedError, match="different records"),
    ):
        follower.wait(timeout=LIMIT_S)
    follower.close()


@contextmanager
def _served(path: Path, port: int = 0) -> Iterator[replication.Server]:
    with replication.serve(path, listen=f"127.0.0.1:{port}") as server:
        yield server


def test_copy_that_was_restored_goes_on(tmp_path: Path) -> None:
    """An older state of a copy has no other records."""
    copy_of(tmp_path / "orders", tmp_path / "copy")
    with commitlog.open(tmp_path / "orders") as log:
        fill(log, 300, "more")
        end = log.flushed_position
    follow_to(tmp_path / "orders", tmp_path / "copy", end)
    check_same(tmp_path / "orders", tmp_path / "copy", end)


def test_server_of_an_older_release_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_of(tmp_path / "orders", tmp_path / "copy")
    answer: Callable[..., dict[str, object]] = Served.answer

    def older(self: Served, action: str, *rest: object) -> dict[str, object]:
        return answer(self, "unknown" if action == "digests" else action, *rest)

    monkeypatch.setattr(Served, "answer", older)
    with (
        replication.serve(tmp_path / "orders") as server,
        pytest.raises(ReplicationError, match="update the older program"),
    ):
        replication.follow(server.url(), tmp_path / "copy")


@pytest.mark.parametrize(
    "ends", [None, 1, [1], [[1]], [[1, 2, 3]], [[-1, 0]], [[0, 1 << 64]], [[True, 1]],
             [["0", 1]], [[0, 1]] * 1025]
)  # fmt: skip
def test_damaged_question_for_digests_is_refused(ends: object) -> None:
    with pytest.raises(ReplicationError, match="no usable 'ends'"):
        wire.digests_asked({"ends": ends}, "the follower")


@pytest.mark.parametrize("digests", [None, [], [[1, 2], [3]], [[1, 2]] * 2, [7]])
def test_damaged_digests_are_refused(digests: object) -> None:
    with pytest.raises(ReplicationError, match="no usable 'digests'"):
        wire.digests_of({"digests": digests}, 1, "the server")
