"""Names that cannot be encoded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import commitlog
from commitlog.errors import InvalidOptionError
from tests.conftest import ROOT

ODD = ["\ud800", "a\udcff", "é" * 65, "a\nb", "", ".", "a/b", "\0"]


class Order(msgspec.Struct):
    id: int


@pytest.mark.parametrize("name", ODD)
def test_name_of_a_tailer_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with commitlog.open(tmp_path / "log") as log:
        for call in (log.tailer, log.delete_tailer, log.evict_tailer):
            with pytest.raises(InvalidOptionError):
                call(name)


@pytest.mark.wing
@pytest.mark.parametrize("name", ODD)
def test_name_of_a_topic_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with commitlog.open(tmp_path / "log") as log, pytest.raises(InvalidOptionError):
        commitlog.topic(log, Order, name=name)


@pytest.mark.parametrize("name", ["\ud800", "a\udcff", "", "é" * 200])
def test_producer_name_that_cannot_be_encoded_is_refused(tmp_path: Path, name: str) -> None:
    with commitlog.open(tmp_path / "log") as log:
        with pytest.raises(InvalidOptionError, match="producer must be a name"):
            log.append(b"x", producer=name, producer_sequence=1)
        assert log.count() == 0


PROGRAM = """
import sys, commitlog
with commitlog.open(sys.argv[1]) as log:
    try:
        log.tailer("caf\\xe9")
    except commitlog.CommitLogError as error:
        print(sys.getfilesystemencoding(), type(error).__name__, ascii(str(error)))
    log.tailer("cafe").close()
"""


def test_tailer_name_beyond_the_locale_is_refused(tmp_path: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "log")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    encoding, kind, said = done.stdout.split(" ", 2)
    assert encoding in ("ascii", "utf-8")
    assert kind == "InvalidOptionError" or encoding == "utf-8"
    assert "LC_ALL=C.UTF-8" in said or encoding == "utf-8"
