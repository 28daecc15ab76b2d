"""The tailing process: follows the log while it is written, keeps count and a running hash, and
knows nothing of the writer.
"""

from __future__ import annotations

import select
import sys
from dataclasses import asdict, dataclass
from typing import Any, Literal

from child import run, task, tell
from corpus import RunningHash
from counters import READ, READER_READY

import commitlog

# When nothing came for so long, it checks whether the demo asks how far it is.
_QUIET_S = 0.05


@dataclass(frozen=True)
class ReaderJob:
    """What the tailing process is to do.

    Attributes
    ----------
    log : str
        Path.
    visibility : str
        "committed" or "flushed": what it may see.
    """

    log: str
    visibility: Literal["committed", "flushed"]

    def as_json(self) -> dict[str, Any]:
        """In the form that a process is started with."""
        return asdict(self)


@dataclass(frozen=True)
class Report:
    """How far the tailing process is, told when it has seen all there is to see.

    Attributes
    ----------
    lines : int
        How many it has seen.
    digest : str
        Their running hash.
    committed, flushed : int
        The log's watermarks, as this process sees them.
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
            if (
                asked
            ):  # before it followed to the end: nothing came between its last look and the question
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
