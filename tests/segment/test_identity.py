"""`log.json`: written once, parsed strictly."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from commitlog.errors import NotALogError, UnsupportedVersionError
from commitlog.segment import identity as identities
from commitlog.segment.identity import Identity


def test_written_identity_is_read_back(dir_fd: int, tmp_path: Path) -> None:
    identity = Identity.new(1 << 20, "precise")
    assert identities.read(dir_fd, str(tmp_path)) is None
    assert identities.write(dir_fd, identity) is True
    assert identities.read(dir_fd, str(tmp_path)) == identity
    assert os.listdir(tmp_path) == ["log.json"]


def test_existing_identity_is_not_replaced(dir_fd: int, tmp_path: Path) -> None:
    first, second = Identity.new(65536, "coarse"), Identity.new(65536, "coarse")
    assert first.uuid != second.uuid
    identities.write(dir_fd, first)
    assert identities.write(dir_fd, second) is False
    assert identities.read(dir_fd, str(tmp_path)) == first
    assert os.listdir(tmp_path) == ["log.json"]


def test_failed_write_leaves_no_file(
    dir_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="Input/output"):
        identities.write(dir_fd, Identity.new(65536, "coarse"))
    assert os.listdir(tmp_path) == []


def test_newer_major_version_is_refused_and_minor_accepted() -> None:
    content = json.loads(Identity.new(65536, "coarse").to_json())
    content["format"]["minor"] += 1
    content["added later"] = True
    assert Identity.parse(json.dumps(content).encode(), "log.json").segment_size == 65536
    content["format"]["major"] += 1
    with pytest.raises(UnsupportedVersionError, match="newer commitlog"):
        Identity.parse(json.dumps(content).encode(), "log.json")


@pytest.mark.parametrize(
    "change",
    [
        {"uuid": "short"},
        {"segment_size": 65537},
        {"segment_size": True},
        {"created_ns": -1},
        {"created_ns": 10**30},
        {"format": {}},
        {"format": 1},
    ],
)
def test_invalid_identity_is_refused_with_its_path(change: dict[str, Any]) -> None:
    content = json.loads(Identity.new(65536, "coarse").to_json()) | change
    with pytest.raises(NotALogError) as caught:
        Identity.parse(json.dumps(content).encode(), "/there/log.json")
    assert caught.value.path == "/there/log.json"


def test_symbolic_link_is_not_followed(dir_fd: int, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(Identity.new(65536, "coarse").to_json())
    (tmp_path / "log.json").symlink_to("elsewhere")
    with pytest.raises(NotALogError, match="symbolic link"):
        identities.read(dir_fd, str(tmp_path))
