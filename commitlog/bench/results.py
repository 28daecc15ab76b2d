"""What a run gave, case by case, and how it is kept."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field

from commitlog.bench.case import Case
from commitlog.bench.histogram import Histogram
from commitlog.bench.sample import Sample

FORMAT = "commitlog-bench/2"
_LEVELS = 2


def json_text(found: object, level: int = 0) -> str:
    """Return JSON in which each entry of the two upper levels has a line of its own: a case, a
    setting.
    """
    if level == _LEVELS or not isinstance(found, dict | list) or not found:
        return json.dumps(found)
    if isinstance(found, dict):
        first, last = "{", "}"
        entries = [
            f"{json.dumps(name)}: {json_text(entry, level + 1)}" for name, entry in found.items()
        ]
    else:
        first, last = "[", "]"
        entries = [json_text(entry, level + 1) for entry in found]
    inner = ",\n".join(" " * (level + 1) + entry for entry in entries)
    return f"{first}\n{inner}\n{' ' * level}{last}" + ("" if level else "\n")


@dataclass
class CaseResult:
    """All turns of one case.

    Attributes
    ----------
    unit : str
        See `Workload.unit`.
    samples : list of Sample
        One a turn, without their latencies, which are in `histogram`.
    written : dict
        The hash of what one turn had written, and how much that was.
    skipped : str
        Why there are no samples, or not all; empty otherwise.
    failed : bool
        Whether that was a fault, and not want of room.
    """

    case: Case
    unit: str
    samples: list[Sample] = field(default_factory=list)
    histogram: Histogram = field(default_factory=Histogram)
    tails_ns: list[int] = field(default_factory=list)
    written: dict[str, object] = field(default_factory=dict)
    skipped: str = ""
    failed: bool = False

    def add(self, sample: Sample) -> None:
        """Count a turn."""
        if sample.latencies_ns is not None:
            own = Histogram()
            own.add(sample.latencies_ns)
            self.tails_ns.append(own.at(99.9))
            self.histogram.add(sample.latencies_ns)
        self.written = sample.written or self.written
        self.samples.append(dataclasses.replace(sample, latencies_ns=None))

    @property
    def figures(self) -> list[float]:
        """Each turn's figure, in the case's unit: records or bytes of values a second, or seconds
        an operation.
        """
        if self.unit == "seconds":
            return [sample.seconds / sample.records for sample in self.samples if sample.records]
        amounts = (
            (sample.value_bytes if self.unit == "bytes" else sample.records, sample.seconds)
            for sample in self.samples
        )
        return [amount / seconds for amount, seconds in amounts if seconds]

    @property
    def median(self) -> float | None:
        figures = self.figures
        return statistics.median(figures) if figures else None

    @property
    def spread(self) -> float:
        """The distance of the extremes from each other, as a share of the median."""
        figures = self.figures
        return (max(figures) - min(figures)) / statistics.median(figures) if figures else 0.0

    @property
    def cpu_share(self) -> float | None:
        """Processor time a second of the run, all threads; above 1 where several cores are busy."""
        wall = sum(sample.wall_s for sample in self.samples)
        return (
            sum(sample.user_s + sample.system_s for sample in self.samples) / wall if wall else None
        )

    @property
    def rss_bytes(self) -> int:
        return max((sample.rss_bytes for sample in self.samples), default=0)

    def as_object(self) -> dict[str, object]:
        """For JSON."""
        return {
            "name": self.case.name,
            **dataclasses.asdict(self.case),
            "baseline": self.case.baseline,
            "unit": self.unit,
            "figures": self.figures,
            "median": self.median,
            "lowest": min(self.figures, default=None),
            "highest": max(self.figures, default=None),
            "spread": self.spread,
            "cpu_share": self.cpu_share,
            "rss_bytes": self.rss_bytes,
            "latency_ns": self.histogram.as_object() if self.histogram.count else None,
            "tails_ns": self.tails_ns,
            "written": self.written or None,
            "skipped": self.skipped or None,
            "failed": self.failed,
            "samples": [_sample_object(sample) for sample in self.samples],
        }


def _sample_object(sample: Sample) -> dict[str, object]:
    names = [
        entry.name
        for entry in dataclasses.fields(sample)
        if entry.name not in ("latencies_ns", "written")
    ]
    return {name: getattr(sample, name) for name in names}


@dataclass
class Results:
    """A run.

    Attributes
    ----------
    started : str
        Date and time, with the zone.
    seconds : float
        How long it all took.
    machine, options : dict
        What it ran on, and with which settings.
    cases : dict of str to CaseResult
        By the case's name.
    interrupted : bool
        Whether it was ended early: what is there is whole turns.
    """

    started: str
    machine: dict[str, object]
    options: dict[str, object]
    cases: dict[str, CaseResult] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def failures(self) -> list[CaseResult]:
        return [result for result in self.cases.values() if result.failed]

    def as_object(self) -> dict[str, object]:
        """For JSON."""
        return {
            "format": FORMAT,
            "started": self.started,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "machine": self.machine,
            "options": self.options,
            "cases": [result.as_object() for result in self.cases.values()],
        }
