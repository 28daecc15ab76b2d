"""Noise: how much other work on the machine disturbed a run."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from humanize import metric

from commitlog.tools.bench.results import Results


@dataclass(frozen=True)
class Verdict:
    """How reliable the figures of a run are: the level of the worst sign, and all of them."""

    level: str
    sentence: str
    signs: tuple[str, ...] = ()


LEVELS = {
    "quiet": "The machine was quiet: the figures are those of commitlog and of this disk.",
    "restless": "Some other work ran: trust the ratios, but not the slowest appends.",
    "noisy": "Other work distorts these figures: measure again when the machine is idle.",
}
_UNKNOWN = Verdict("unknown", "This run does not show how quiet the machine was.")


def judge(results: Results) -> Verdict:
    """Judge a run by the processor time taken from it, the pacing loop, and its spread."""
    signs = [sign for sign in (_delay(results), _alone(results), _spread(results)) if sign]
    if not signs or results.options.get("quick"):
        return _UNKNOWN
    level = list(LEVELS)[max(rank for rank, _ in signs)]
    return Verdict(level, LEVELS[level], tuple(sentence for _, sentence in signs))


Sign = tuple[int, str] | None


def _rank(figure: float, restless: float, noisy: float) -> int:
    return (figure > restless) + (figure > noisy)


def _delay(results: Results) -> Sign:
    """Judge the turn at a constant rate that waited longest for a processor."""
    samples = [sample for result in results.of("paced") for sample in result.samples]
    waits = [
        (sample.run_delay_s, sample.wall_s)
        for sample in samples
        if sample.run_delay_s is not None and sample.wall_s
    ]
    if not waits:
        return None
    delay_s, wall_s = max(waits, key=lambda wait: wait[0] / wait[1])
    share = delay_s / wall_s
    found = f"Other work had the appender's processor for at most {100 * share:.2f} % of a turn"
    return _rank(share, 1e-3, 1e-2), f"{found} ({metric(delay_s, 's')} of {metric(wall_s, 's')})."


def _alone(results: Results) -> Sign:
    """Judge the slowest calls of a loop that appends nothing."""
    for result in results.of("paced"):
        if result.case.setup == "pacing-alone" and result.histogram.count:
            tail_s = result.histogram.at(99.9) / 1e9
            found = f"A loop without a log, at the same rate, has a p99.9 of {metric(tail_s, 's')}."
            return _rank(tail_s, 100e-6, 1e-3), found
    return None


def _spread(results: Results) -> Sign:
    """Judge the median spread of the turns of a case."""
    spreads = [result.spread / 2 for result in results.cases.values() if len(result.samples) > 1]
    if not spreads:
        return None
    half = statistics.median(spreads)
    return _rank(
        half, 0.1, 0.25
    ), f"Turns of the same case typically differ by ±{100 * half:.0f} %."
