"""The round: several processes write a small log while another one reads it, and every byte is
checked.
"""

from __future__ import annotations

import random
import time
from functools import partial

import commitlog
from commitlog.doctor.children import Children
from commitlog.doctor.finding import Outcome, failed, ok
from commitlog.doctor.workspace import Workspace
from commitlog.errors import CommitLogError
from commitlog.repair.verification import verify

_WRITERS = 3
_RECORDS = 1500
_LONGEST = 400
_SEGMENT = 64 << 10
_LIMIT_S = 30.0
_ADVICE = "do not keep a log here, and report this finding with the lines above it"


def content(writer: int, number: int) -> bytes:
    """Return the value that a writer appends as its record `number`: writer, number, and bytes that
    both determine.
    """
    numbers = random.Random(writer << 32 | number)
    return (
        writer.to_bytes(4, "little")
        + number.to_bytes(4, "little")
        + numbers.randbytes(numbers.randrange(_LONGEST))
    )


def check_round(workspace: Workspace) -> Outcome:
    """Check that a log works with several processes."""
    path = str(workspace.folder / "log")
    began = time.perf_counter()
    try:
        commitlog.open(path, mode="x", segment_size=_SEGMENT).close()
        with Children() as children:
            reader = children.start(partial(_read, path))
            writers = [children.start(partial(_write, path, writer)) for writer in range(_WRITERS)]
            for writer in writers:
                children.answer(writer, _LIMIT_S)
            size = int(children.answer(reader, _LIMIT_S))
        report = verify(path)
    except (CommitLogError, OSError) as error:
        return failed(str(error), _ADVICE)
    if not report.sound or report.records != _WRITERS * _RECORDS:
        return failed(
            f"only {report.records} of {_WRITERS * _RECORDS} records are valid afterwards", _ADVICE
        )
    took_s = time.perf_counter() - began
    return ok(
        f"{_WRITERS} writers and a reader: {report.records} records, {size} bytes, all read as "
        f"they were written, {took_s:.1f} s"
    )


def _write(path: str, writer: int) -> None:
    with commitlog.open(path) as log:
        for number in range(_RECORDS):
            log.append(content(writer, number))


def _read(path: str) -> int:
    """Read the records of all writers as they arrive; return the number of their bytes."""
    due = [0] * _WRITERS
    size = 0
    deadline = time.monotonic() + _LIMIT_S
    with commitlog.open(path, mode="r") as log, log.tailer() as tailer:
        while sum(due) < _WRITERS * _RECORDS:
            record = tailer.read(timeout=1.0)
            if record is None:
                if time.monotonic() > deadline:
                    raise OSError(
                        f"only {sum(due)} of {_WRITERS * _RECORDS} records arrived within "
                        f"{_LIMIT_S:g} s"
                    )
                continue
            writer = int.from_bytes(record.value[:4], "little")
            if writer >= _WRITERS or record.value != content(writer, due[writer]):
                raise OSError(
                    f"the record at position {record.position} differs from what the writer "
                    "appended"
                )
            due[writer] += 1
            size += len(record.value)
    return size
