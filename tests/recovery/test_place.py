"""A log that has copies notices that its directory is another one; no other event looks like it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from commitlog import replication
from commitlog.errors import FencedError, ReplicationError
from commitlog.log.parts import parts_of
from commitlog.recovery import epochs
from commitlog.recovery.epochs import Epochs
from commitlog.recovery.lineage import Lineage, Member
from commitlog.recovery.place import Place
from commitlog.replication import Replication
from commitlog.segment import checked_json
from tests.copies import copy_log
from tests.network.replication.scene import LIMIT_S, SEGMENT, fill, records, settle

pytestmark = pytest.mark.wing

Act = Callable[[Path], Path]


def known(path: Path) -> Lineage:
    found = Epochs.at(str(path))
    assert found is not None
    return found[1]


def replicated(folder: Path, *names: str, count: int = 5) -> int:
    """Append to a log, let copies of these names acknowledge, close all, and return the end."""
    rule = Replication(require=1)
    with commitlog.open(folder / "orders", segment_size=SEGMENT, replicate=rule) as log:
        url = rule.server.url("orders")
        copies = [replication.follow(url, folder / name, name=name) for name in names]
        fill(log, count)
        for copy in copies:
            assert copy.wait(log.flushed_position, LIMIT_S)
            copy.close()
        return log.flushed_position


def copied(path: Path) -> Path:
    copy_log(path, path.with_name("backup"))
    shutil.rmtree(path)
    return path.with_name("backup").rename(path)


def cloned(path: Path) -> Path:
    return copy_log(path, path.with_name("clone"))


def linked(path: Path) -> Path:
    subprocess.run(["cp", "-al", path, path.with_name("linked")], check=True)
    return path.with_name("linked")


def synchronized(path: Path) -> Path:
    """Replace the files by those of an older state, in the same directory."""
    for file in [each for each in path.iterdir() if each.is_file()]:
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content)
    return path


def overwritten(path: Path) -> Path:
    """As `cp` does, into the same inodes: the file `epoch` is of an earlier open."""
    older = (path / epochs.NAME).read_bytes()
    settle(path)
    (path / epochs.NAME).write_bytes(older)
    return path


@pytest.mark.parametrize("act", [copied, cloned, linked, synchronized, overwritten])
def test_restored_primary_is_not_written(act: Act, tmp_path: Path) -> None:
    replicated(tmp_path, "b")
    path = act(tmp_path / "orders")
    with pytest.raises(FencedError, match="--force restored"):
        commitlog.open(path)
    assert len(records(path)) == 5


@pytest.mark.parametrize("act", [copied, cloned, linked, synchronized, overwritten])
def test_restored_copy_neither_follows_nor_promises(act: Act, tmp_path: Path) -> None:
    replicated(tmp_path, "b", "c")
    path = act(tmp_path / "b")
    with replication.serve([tmp_path / "orders", path]) as server:
        with pytest.raises(FencedError, match="restored=True"):
            replication.follow(server.url("orders"), path)
        with pytest.raises(ReplicationError, match=r"restored from a backup.*1 of 2 copies|1 of 2"):
            replication.promote(tmp_path / "c", others=[server.url(path.name)])
    with pytest.raises(ReplicationError, match="force restored"):
        replication.promote(path)


def test_restored_copy_goes_on_as_a_new_one(tmp_path: Path) -> None:
    replicated(tmp_path, "b", "c")
    before = known(tmp_path / "b").member
    copied(tmp_path / "b")
    rule = Replication(require=1)
    with commitlog.open(tmp_path / "orders", replicate=rule) as log:
        url = rule.server.url("orders")
        with replication.follow(url, tmp_path / "b", name="b", restored=True) as copy:
            fill(log, 5)
            assert copy.wait(log.flushed_position, LIMIT_S)
        replication.follow(url, tmp_path / "b", name="b").close()
    after = known(tmp_path / "orders")
    assert before not in {each.id for each in after.members}
    assert [each.name for each in after.members] == ["", "c", "b"]
    assert after.copies == 2
    assert records(tmp_path / "b") == records(tmp_path / "orders")


def test_restored_primary_gets_the_rest_by_a_promotion(tmp_path: Path) -> None:
    replicated(tmp_path, "b", "c")
    copy_log(tmp_path / "orders", tmp_path / "backup")
    end = replicated(tmp_path, "b", "c", count=300)
    whole = records(tmp_path / "orders")
    shutil.rmtree(tmp_path / "orders")
    (tmp_path / "backup").rename(tmp_path / "orders")
    with replication.serve([tmp_path / "b", tmp_path / "c"]) as server:
        others = [server.url("b"), server.url("c")]
        with pytest.raises(ReplicationError, match="restored"):
            replication.promote(tmp_path / "orders", others=others)
        gone = [others[0], "tcp://127.0.0.1:1/c"]
        with pytest.raises(ReplicationError, match="2 of 3 copies"):  # its own does not count
            replication.promote(tmp_path / "orders", others=gone, force="restored")
        with pytest.raises(FencedError):
            commitlog.open(tmp_path / "orders")
        epoch = replication.promote(tmp_path / "orders", others=others, force="restored")
    assert epoch.start == end
    assert records(tmp_path / "orders") == whole
    commitlog.open(tmp_path / "orders").close()
    assert known(tmp_path / "orders").copies == 2


def renamed(path: Path) -> Path:
    return path.rename(path.with_name("renamed"))


def moved(path: Path) -> Path:
    path.with_name("folder").mkdir()
    return Path(shutil.move(path, path.with_name("folder") / path.name))


def with_other_modes(path: Path) -> Path:
    for file in (path, *path.iterdir()):
        file.chmod(0o700)
        os.utime(file)
    return path


def linked_to(path: Path) -> Path:
    path.with_name("link").symlink_to(path)
    return path.with_name("link")


def without_birth(path: Path) -> Path:
    """As another Linux or file system that does not say when a file was created."""
    settle_with(path, lambda place: Place(place.file, place.directory, None))
    return path


def on_overlay(path: Path) -> Path:
    settle_with(path, lambda place: Place(place.file, None, None))
    return path


def settle_with(path: Path, other: Callable[[Place], Place]) -> None:
    """Write the file with another place, into itself."""
    with commitlog.open(path, "r") as log:
        directory = parts_of(log).directory
        fd = os.open(path / epochs.NAME, os.O_RDONLY)
        try:
            place = other(Place.of(directory.fd, fd))
        finally:
            os.close(fd)
        content = Epochs(directory).read().content()
        text = (path / epochs.NAME).read_bytes()
        written = json.loads(text)["place"]
        assert written == {"file": place.file, "directory": written["directory"]} | {
            "born": written["born"]
        }
        original = path / epochs.NAME
        inode = original.stat().st_ino
        checked_json.write(directory, "other", {**content, "place": place.content()})
        original.write_bytes((path / "other").read_bytes())
        (path / "other").unlink()
        assert original.stat().st_ino == inode


@pytest.mark.parametrize(
    "act", [renamed, moved, with_other_modes, linked_to, without_birth, on_overlay]
)
def test_ordinary_event_refuses_nothing(act: Act, tmp_path: Path) -> None:
    replicated(tmp_path, "b")
    path, copy = act(tmp_path / "orders"), tmp_path / "b"
    rule = Replication(require=1)
    with (
        commitlog.open(path, replicate=rule) as log,
        replication.follow(rule.server.url(), copy, name="b") as follower,
    ):
        log.append(b"next", sync=True)
        assert follower.wait(log.flushed_position, LIMIT_S)
    assert known(path).copies == 1


def test_log_without_copies_may_be_copied(tmp_path: Path) -> None:
    commitlog.open(tmp_path / "plain").close()
    cloned(tmp_path / "plain")
    commitlog.open(tmp_path / "clone").close()
    commitlog.open(tmp_path / "orders", replicate=Replication(require=1)).close()
    copied(tmp_path / "orders")
    commitlog.open(tmp_path / "orders").close()
    replication.promote(tmp_path / "plain")
    copied(tmp_path / "plain")
    commitlog.open(tmp_path / "plain").close()


def test_recovery_of_a_restored_log_does_not_hide_it(tmp_path: Path) -> None:
    rule = Replication(require=1)
    with commitlog.open(tmp_path / "orders", segment_size=SEGMENT, replicate=rule) as log:
        with replication.follow(rule.server.url(), tmp_path / "b"):
            fill(log, 5)
        copy_log(log.path, tmp_path / "backup")
    with pytest.raises(ReplicationError, match="force restored"):
        replication.promote(tmp_path / "backup")  # which recovers it first
    with pytest.raises(FencedError, match="--force restored"):
        commitlog.open(tmp_path / "backup")


def test_clone_of_a_primary_that_follows_it_is_refused(tmp_path: Path) -> None:
    replicated(tmp_path, "b")
    cloned(tmp_path / "orders")
    settle(tmp_path / "clone")  # as a snapshot of the whole volume: nothing shows it here
    with replication.serve(tmp_path / "b") as server:
        replication.promote(tmp_path / "orders", others=[server.url()])
    rule = Replication(require=1)
    with (
        commitlog.open(tmp_path / "orders", replicate=rule),
        pytest.raises(ReplicationError, match="clone of this log"),
    ):
        replication.follow(rule.server.url(), tmp_path / "clone")


def test_file_of_an_older_release_is_accepted(tmp_path: Path) -> None:
    """It has neither place nor id, and gets both when it is written next."""
    replicated(tmp_path, "b")
    path = tmp_path / "orders"
    with commitlog.open(path, "r") as log:
        directory = parts_of(log).directory
        content = {"follows": None, "epochs": [], "require": 1}
        checked_json.write(directory, epochs.NAME, content)
    cloned(path)
    commitlog.open(path).close()
    assert known(path) == Lineage(require=1)
    replicated(tmp_path, "b")
    after = known(path)
    assert after.member
    assert [each.name for each in after.members] == ["", "b"]


def test_new_file_satisfies_the_rules_of_older_releases(tmp_path: Path) -> None:
    replicated(tmp_path, "b")
    content = json.loads((tmp_path / "orders" / epochs.NAME).read_text())
    assert content["format"] == 1
    assert {"follows", "epochs", "require"} <= content.keys()
    # What an older release writes back: the keys that it knows.
    dropped = {name: content[name] for name in ("follows", "epochs", "require")}
    assert Lineage.parse(dropped) == Lineage(require=1)


@pytest.mark.parametrize(
    "content",
    [
        {"member": "x"}, {"member": 1}, {"member": "A" * 32}, {"members": {}}, {"copies": -1},
        {"members": [{"id": "a" * 32, "name": "n" * 513}]}, {"copies": 65}, {"copies": True},
        {"members": [{"id": "a" * 32}] * 2}, {"members": [{"name": "b"}]}, {"members": [1]},
        {"members": [{"id": f"{n:032}"} for n in range(66)]},
    ],
)  # fmt: skip
def test_damaged_members_are_refused(content: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Lineage.parse({"follows": None, "epochs": [], **content})


def test_copy_of_one_name_replaces_the_earlier_one() -> None:
    own = Lineage(member="a" * 32)
    first = own.joined(Member("b" * 32, "b")).joined(Member("c" * 32, "c"))
    assert first.copies == 2
    again = first.joined(Member("d" * 32, "b"))
    assert again.copies == 2
    assert [each.id[0] for each in again.members] == ["a", "c", "d"]
    assert again.joined(Member("e" * 32, "e")).copies == 3


def test_clone_of_a_copy_does_not_count_beside_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replicated(tmp_path, "b")
    cloned(tmp_path / "b")
    settle(tmp_path / "clone")  # as a snapshot of the whole volume
    rule = Replication(require=1)
    with commitlog.open(tmp_path / "orders", replicate=rule) as log:
        url = rule.server.url("orders")
        with replication.follow(url, tmp_path / "b", name="b") as copy:
            assert copy.wait(log.append(b"one") + 1, LIMIT_S)
            with pytest.raises(ReplicationError, match="is connected under another name"):
                replication.follow(url, tmp_path / "clone", name="clone", connect_timeout=1)
        assert rule.server.followers().keys() == {"b"}
        replication.follow(url, tmp_path / "b", name="renamed").close()
    assert [each.name for each in known(tmp_path / "orders").members] == ["", "renamed"]


@pytest.mark.parametrize("kind", [0x4D44, 0x2011BAB0])
def test_file_system_without_inodes_compares_no_place(
    kind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of FAT and exFAT, a remount gives each file another inode."""
    monkeypatch.setattr("commitlog.recovery.place.file_system_type", lambda _: kind)
    replicated(tmp_path, "b")
    commitlog.open(copied(tmp_path / "orders")).close()
