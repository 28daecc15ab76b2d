"""How long messages waited and were handled, by the histories in a log."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from commitlog import Batch, CommitLog, Tailer
from commitlog.base.histogram import Histogram
from commitlog.errors import SchemaError
from commitlog.topics.history import MOST_HOPS, History
from commitlog.topics.schema import SCHEMA_TYPE, Schema
from commitlog.topics.topics_state import catalog_of

# Hops with a higher number, and sources after so many, share a row. So do problems.
MOST_SOURCES = 64
MOST_PROBLEMS = 64
OTHER_PROBLEMS = "other problems"
# Steps of at most 1 %, up to 146 years.
_EXACT_BITS, _HIGHEST_NS = 8, 1 << 62


@dataclass(frozen=True)
class Stage:
    """One stage of the path of messages.

    Attributes
    ----------
    kind : str
        "hop", "source" or "way", which is the whole way.
    step : str
        "waited": from the write of a message to its read. "handled": from there to the write of the
        next message. "total": both, of the whole way.
    hop : int or None
        The number of a hop, from 1; None for all hops above 32, and for other kinds.
    source : uuid.UUID or None
        The log of a source; None for all sources after the first 64, and for other kinds.
    """

    kind: str
    step: str
    hop: int | None = None
    source: uuids.UUID | None = None


@dataclass(eq=False)
class Durations:
    """The durations of a stage.

    Attributes
    ----------
    histogram : Histogram
        Those that are not negative.
    negative : int
        How many are negative: the clocks of two machines differ, or a clock was set.
    least_ns : int
        The most negative one; 0 without any.
    """

    histogram: Histogram = field(default_factory=lambda: Histogram(_HIGHEST_NS, _EXACT_BITS))
    negative: int = 0
    least_ns: int = 0

    @property
    def count(self) -> int:
        return self.histogram.count + self.negative

    def add(self, found_ns: list[int]) -> None:
        """Count some durations."""
        # The times come from a file: their difference may exceed 64 bits.
        values = np.array([max(-_HIGHEST_NS, min(each, _HIGHEST_NS)) for each in found_ns])
        below = values < 0
        self.negative += int(np.count_nonzero(below))
        self.least_ns = min(self.least_ns, int(values.min()))
        self.histogram.add(values[~below])


@dataclass(eq=False)
class Problem:
    """Messages whose history cannot be read, for one reason."""

    messages: int
    first_position: int


@dataclass(eq=False)
class HistoryReport:
    """The histories of the messages in a range of a log.

    Attributes
    ----------
    records, messages, histories : int
        All records, those that are messages of the chosen topics, and those with a history.
    shortened : int
        Histories whose oldest hops were left out. They are not counted in the total.
    most_hops : int
        The hops of the longest way.
    stages : dict of Stage to Durations
    problems : dict of str to Problem
        By what is wrong.
    """

    records: int = 0
    messages: int = 0
    histories: int = 0
    shortened: int = 0
    most_hops: int = 0
    stages: dict[Stage, Durations] = field(default_factory=dict)
    problems: dict[str, Problem] = field(default_factory=dict)
    _sources: set[uuids.UUID] = field(default_factory=set)

    def rows(self) -> list[tuple[Stage, Durations]]:
        """Return the stages: hops by number, then sources as they were found, then the way."""
        kinds = ("hop", "source", "way")

        def place(row: tuple[Stage, Durations]) -> tuple[int, bool, int]:
            stage = row[0]
            is_rest = stage.hop is None and stage.source is None
            return kinds.index(stage.kind), is_rest, stage.hop or 0

        return sorted(self.stages.items(), key=place)

    def add(self, batch: Batch, rows: list[int]) -> None:
        """Count the messages of some rows, which have a history."""
        found: dict[Stage, list[int]] = {}
        for row in rows:
            try:
                history = History.of_value(batch.value(row))
            except ValueError as error:
                self.refuse(str(error), 1, int(batch.positions[row]))
                continue
            self.histories += 1
            self.shortened += history.earlier > 0
            self.most_hops = max(self.most_hops, history.earlier + len(history.hops))
            for stage, took_ns in self._stages_of(history):
                found.setdefault(stage, []).append(took_ns)
        for stage, durations in found.items():
            self.stages.setdefault(stage, Durations()).add(durations)

    def refuse(self, problem: str, messages: int, position: int) -> None:
        """Count messages whose history cannot be read."""
        if problem not in self.problems and len(self.problems) >= MOST_PROBLEMS:
            problem = OTHER_PROBLEMS
        known = self.problems.setdefault(problem, Problem(0, position))
        known.messages += messages

    def _stages_of(self, history: History) -> Iterator[tuple[Stage, int]]:
        hops = history.hops
        ends = [hop.written_ns for hop in hops[1:]] + [history.written_ns]
        for number, (hop, end) in enumerate(zip(hops, ends, strict=True), history.earlier + 1):
            place = number if number <= MOST_HOPS else None
            source = self._known(hop.source)
            for step, took_ns in (
                ("waited", hop.read_ns - hop.written_ns),
                ("handled", end - hop.read_ns),
            ):
                yield Stage("hop", step, hop=place), took_ns
                yield Stage("source", step, source=source), took_ns
        if not history.earlier:
            yield Stage("way", "total"), history.written_ns - hops[0].written_ns

    def _known(self, source: uuids.UUID) -> uuids.UUID | None:
        if source not in self._sources:
            if len(self._sources) >= MOST_SOURCES:
                return None
            self._sources.add(source)
        return source


class _Schemas:
    """The schemas of the chosen topics; the catalog limits how many it remembers."""

    def __init__(self, log: CommitLog, topics: Collection[str]) -> None:
        self._catalog = catalog_of(log)
        self._topics = topics

    def find(self, number: int) -> Schema | str | None:
        """Return the schema of a type number, or the error that it raises; None if its topic is not
        chosen.
        """
        schema = self._catalog.checked(number)
        found = str(schema) if isinstance(schema, SchemaError) else schema
        if self._topics and (isinstance(found, str) or found.topic not in self._topics):
            return None
        return found


def reported(
    log: CommitLog, tailer: Tailer, end: int | None, topics: Collection[str] = ()
) -> HistoryReport:
    """Read records, and report the histories of their messages.

    Parameters
    ----------
    log : CommitLog
        The log.
    tailer : Tailer
        A tailer of the log at the first record.
    end : int or None
        The position at which the records end; None for the log's present end.
    topics : collection of str
        The names of topics and methods; all if there is none.
    """
    report = HistoryReport()
    schemas = _Schemas(log, topics)
    if end is None:
        end = max(log.tail_position, log.committed_position)
    while tailer.position < end and len(batch := tailer.read_batch()):
        inside = batch.positions < end
        report.records += int(np.count_nonzero(inside))
        numbers = batch.types
        for number in np.unique(numbers[inside & (numbers > SCHEMA_TYPE)]).tolist():
            rows = np.flatnonzero(inside & (numbers == number)).tolist()
            schema = schemas.find(number)
            if schema is None:
                continue
            report.messages += len(rows)
            if isinstance(schema, str):
                report.refuse(schema, len(rows), int(batch.positions[rows[0]]))
            elif schema.has_history:
                report.add(batch, rows)
    return report
