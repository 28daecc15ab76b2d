"""The results of a run, case by case, and their JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field

from commitlog.base.histogram import Histogram
from commitlog.tools.bench.case import Case
from commitlog.tools.bench.sample import Sample

FORMAT = "commitlog-bench/3"
_LEVELS = 2


def json_text(found: object, level: int = 0) -> str:
    """Return JSON in which each entry of the two upper levels has a line: a case, a setting."""
    if level == _LEVELS or not isinstance(found, dict | list) or not found:
        return json.dumps(found)
    if isinstance(found, dict):
        keys = [f"{json.dumps(name)}: " for name in found]
        first, last, values = "{", "}", list(found.values())
    else:
        first, last, values, keys = "[", "]", found, [""] * len(found)
    start = "\n" + " " * (level + 1)
    lines = [key + json_text(value, level + 1) for key, value in zip(keys, values, strict=True)]
    return first + start + f",{start}".join(lines) + start[:-1] + last + "\n" * (not level)


@dataclass
class CaseResult:
    case: Case
    unit: str
    samples: list[Sample] = field(default_factory=list)  # one a turn, without their latencies
    histogram: Histogram = field(default_factory=Histogram)
    tails_ns: list[int] = field(default_factory=list)  # the 99.9th percentile of each turn
    skipped: str = ""  # why samples are missing
    failed: bool = False  # a fault was the reason, and not a lack of space

    def add(self, sample: Sample) -> None:
        if sample.latencies_ns is not None:
            own = Histogram()
            own.add(sample.latencies_ns)
            self.tails_ns.append(own.at(99.9))
            self.histogram.add(sample.latencies_ns)
        self.samples.append(dataclasses.replace(sample, latencies_ns=None))

    @property
    def figures(self) -> list[float]:
        """Return the figure of each turn, in `unit`."""
        samples = self.samples
        if self.unit == "s":
            return [sample.seconds / sample.records for sample in samples if sample.records]
        return [
            (sample.value_bytes if self.unit == "B/s" else sample.records) / sample.seconds
            for sample in samples
            if sample.seconds
        ]

    @property
    def median(self) -> float | None:
        figures = self.figures
        return statistics.median(figures) if figures else None

    @property
    def spread(self) -> float:
        """Return the distance of the extremes as a share of the median."""
        figures = self.figures
        return (max(figures) - min(figures)) / statistics.median(figures) if figures else 0.0

    @property
    def cpu_share(self) -> float | None:
        """Return the processor time a second of all threads; above 1 if several cores are busy."""
        wall_s = sum(sample.wall_s for sample in self.samples)
        used_s = sum(sample.cpu_s for sample in self.samples)
        return used_s / wall_s if wall_s else None

    @property
    def rss_bytes(self) -> int:
        return max((sample.rss_bytes for sample in self.samples), default=0)

    def as_object(self) -> dict[str, object]:
        figures, samples = self.figures, [dataclasses.asdict(sample) for sample in self.samples]
        for sample in samples:
            del sample["latencies_ns"]
        return {
            "name": self.case.name,
            **dataclasses.asdict(self.case),
            "baseline": self.case.baseline,
            "unit": self.unit,
            "figures": figures,
            "median": self.median,
            "lowest": min(figures, default=None),
            "highest": max(figures, default=None),
            "spread": self.spread,
            "cpu_share": self.cpu_share,
            "rss_bytes": self.rss_bytes,
            "latency_ns": self.histogram.as_object() if self.histogram.count else None,
            "tails_ns": self.tails_ns,
            "skipped": self.skipped or None,
            "failed": self.failed,
            "samples": samples,
        }


@dataclass
class Results:
    started: str
    machine: dict[str, object]
    options: dict[str, object]
    cases: dict[str, CaseResult] = field(default_factory=dict)  # by name
    seconds: float = 0.0
    interrupted: bool = False  # it ended early; every turn in it is complete

    @property
    def failures(self) -> list[CaseResult]:
        return [result for result in self.cases.values() if result.failed]

    def of(self, workload: str) -> list[CaseResult]:
        """Return the cases of a workload that have samples, in the order of their turns."""
        found = (result for result in self.cases.values() if result.case.workload == workload)
        return [result for result in found if result.samples]

    def as_object(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "started": self.started,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "machine": self.machine,
            "options": self.options,
            "cases": [result.as_object() for result in self.cases.values()],
        }
