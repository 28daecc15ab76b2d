"""The tailing process: follow the log while it is written, and count and hash its lines."""

from __future__ import annotations

import select
import sys
from dataclasses import asdict, dataclass
from typing import Any, Literal

from child import run, task, tell
from corpus import RunningHash
from counters import READ, READER_READY

import commitlog

# If no record arrives for this time, it checks whether the parent asks for a report.
_QUIET_S = 0.05


@dataclass(frozen=True)
class ReaderJob:
    """The job of the tailing process.

    Attributes
    ----------
    log : str
        The path of the log.
    visibility : str
        The watermark up to which it reads: "committed" or "flushed".
    """

    log: str
    visibility: Literal["committed", "flushed"]

    def as_json(self) -> dict[str, Any]:
        """Return the job as an object for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """The progress of the tailing process, once it has read everything visible.

    Attributes
    ----------
    lines : int
        The lines that it has read.
    digest : str
        Their running hash.
    committed, flushed : int
        The watermarks of the log, as this process sees them.
    """

    lines: int
    digest: str
    committed: int
    flushed: int


def main() -> None:
    """Tail until the parent has closed the pipe."""
    counters, job_json = task()
    job = ReaderJob(**job_json)
    digest, seen, cells = RunningHash(), 0, counters.cells
    with commitlog.open(job.log, "r") as log, log.tailer(visibility=job.visibility) as tailer:
        cells[READER_READY] = 1
        asked = False
        while True:
            for record in tailer.follow(timeout=_QUIET_S):
                digest.add(record.value)
                seen += 1
                cells[READ] = seen
            if asked:  # the question came before the last read, so that read was up to date
                tell(
                    asdict(
                        Report(
                            seen, digest.hexdigest(), log.committed_position, log.flushed_position
                        )
                    )
                )
                asked = False
            elif select.select([sys.stdin], [], [], 0)[0]:
                if not sys.stdin.readline():
                    return
                asked = True


if __name__ == "__main__":
    run(main)
