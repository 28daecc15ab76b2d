"""The sink with a fault in its second batch, at a step that a file names. When the fault happens,
the writer renames the file, so that the fault happens once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil

from commitlog.base import failpoint
from commitlog.spark.sink import LogStreamWriter, StagedTask
from commitlog.spark.source import CommitLogSource

STEPS = {
    "before the note": "place given",
    "after the note": "segment placed",
    "after the manifest": "manifest written",
}


class HarmedSource(CommitLogSource):
    """`format("harmed_commitlog")` with the option `harm`: the path of a file that holds the name
    of the step and the kind of fault.
    """

    @classmethod
    def name(cls) -> str:
        return "harmed_commitlog"

    def streamWriter(self, schema: Any, overwrite: bool) -> LogStreamWriter:  # noqa: N802 - Spark's name
        options = dict(self.options.items())
        return HarmedWriter(options.pop("harm"), options, schema, overwrite)


class HarmedWriter(LogStreamWriter):
    """A writer that fails once, in batch 1: it raises an exception or kills all Spark processes."""

    def __init__(self, harm: str, options: Any, schema: Any, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        self.harm = harm

    def write(self, iterator: Iterator[Any]) -> StagedTask:
        task = super().write(iterator)
        if task.batch == 1:
            self._fail("write")
        return task

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        if batchId == 1:
            self._fail("before commit")
            failpoint.hook = self._at_step
        try:
            super().commit(messages, batchId)
        finally:
            failpoint.hook = None
        if batchId == 1:
            self._fail("after commit")

    def _at_step(self, step: str) -> None:
        for name, at in STEPS.items():
            if step == at:
                self._fail(name)

    def _fail(self, where: str) -> None:
        try:
            with open(self.harm) as file:
                name, _, deadly = file.read().partition(",")
        except FileNotFoundError:
            return
        if name != where:
            return
        os.unlink(self.harm)
        if deadly:
            kill_spark()
        raise RuntimeError("harmed")


def kill_spark() -> None:
    """Send SIGKILL to the JVM, to the process that started it, and last to this process."""
    java = next(process for process in psutil.Process().parents() if process.name() == "java")
    for process in [java.parent(), java]:
        if process is not None:
            os.kill(process.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
