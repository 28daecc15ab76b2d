"""What commitlog is meant to reach, as ratios inside one run, and whether it did."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from humanize import metric

_SLOW_FLUSH_S = 500e-6

# A full run and one of its cases, as their JSON has them.
Results = dict[str, Any]
Case = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """One goal and what came of it; `value` and `met` are None where it was not measured."""

    goal: str
    figure: str
    value: float | None
    limit: float
    least: bool  # the limit is the least that is asked for, and not the most
    met: bool | None


Ratio = tuple[float, str] | None


@dataclass(frozen=True)
class Goal:
    """A ratio, and its bound."""

    goal: str
    limit: float | Callable[[Results], float]
    ratio: Callable[[Results], Ratio]
    least: bool = True

    def judge(self, results: Results) -> Verdict:
        limit = self.limit(results) if callable(self.limit) else self.limit
        measured = self.ratio(results)
        if measured is None:
            return Verdict(self.goal, "not measured", None, limit, self.least, None)
        value, figure = measured
        return Verdict(
            self.goal,
            figure,
            value,
            limit,
            self.least,
            value >= limit if self.least else value <= limit,
        )


def judge(results: Results) -> list[Verdict]:
    """Every goal, in the order of the table."""
    return [goal.judge(results) for goal in GOALS]


def _find(results: Results, workload: str, setup: str, **chosen: object) -> Case | None:
    """The first case like this that has samples."""
    wanted = {"workload": workload, "setup": setup, **chosen}
    return next(
        (case for case in results["cases"] if case["samples"] and wanted.items() <= case.items()),
        None,
    )


# --- ratios ---------------------------------------------------------------------------------------


def _quotient(
    over: Case | None, under: Case | None, figures: Callable[[Case], list[float]], unit: str
) -> Ratio:
    """The median of the quotients of the same turn: what slows one turn of the machine down slows
    both.
    """
    if over is None or under is None:
        return None
    pairs = [
        (first, second)
        for first, second in zip(figures(over), figures(under), strict=False)
        if second
    ]
    if not pairs:
        return None
    value = statistics.median(first / second for first, second in pairs)
    both = (metric(statistics.median(side), unit) for side in zip(*pairs, strict=True))
    return value, " : ".join(both)


def _rates(result: Case) -> list[float]:
    figures: list[float] = result["figures"]
    return figures


def _times(result: Case) -> list[float]:
    """Seconds a record."""
    return [1 / figure for figure in result["figures"] if figure]


def _tails(result: Case) -> list[float]:
    return [nanoseconds / 1e9 for nanoseconds in result["tails_ns"]]


def _append(results: Results, setup: str, form: str = "single") -> Case | None:
    return _find(results, "append", setup, value_size=40, form=form, flush="async")


def _forms(form: str) -> Callable[[Results], Ratio]:
    return lambda results: _quotient(
        _append(results, "pooled", form), _append(results, "pooled"), _rates, "/s"
    )


def _read(results: Results, form: str) -> Case | None:
    return _find(results, "read", "pooled", value_size=40, form=form)


def _backward(form: str) -> Callable[[Results], Ratio]:
    return lambda results: _quotient(
        _read(results, f"{form}-backward"), _read(results, form), _times, "s"
    )


def _tail_against(setup: str) -> Callable[[Results], Ratio]:
    return lambda results: _quotient(
        _find(results, "paced", "pooled"), _find(results, "paced", setup), _tails, "s"
    )


def _sync(results: Results, threads: int, setup: str = "mapped") -> Case | None:
    return _find(results, "sync-threads", setup, threads=threads)


def _sixteen_limit(results: Results) -> float:
    """The faster the flush, the more of the time goes to the interpreter, which hands its lock
    round in between.
    """
    flush = _find(results, "sync-threads", "page-msync")
    return 8.0 if flush is not None and min(_times(flush), default=0.0) >= _SLOW_FLUSH_S else 4.0


def _slow_sixteen(results: Results) -> Ratio:
    """Where each flush is delayed; how long one took then stands beside it."""
    sixteen, one = (
        _find(results, "sync-threads-slow", "mapped", threads=threads) for threads in (16, 1)
    )
    ratio = _quotient(sixteen, one, _rates, "/s")
    flushes = _facts(one, "mean_flush_s")
    if ratio is None or not flushes:
        return ratio
    return ratio[0], f"{ratio[1]}, a flush {metric(statistics.median(flushes), 's')}"


def _apart(results: Results) -> Ratio:
    """How far pooled and mapped sync appends are from each other, at one thread and at sixteen: the
    larger distance.
    """
    found: list[tuple[float, str]] = []
    for threads in (1, 16):
        ratio = _quotient(_sync(results, threads, "pooled"), _sync(results, threads), _times, "s")
        if ratio is not None:
            found.append(
                (max(ratio[0], 1 / ratio[0]), f"{ratio[1]}, {threads} thread{'s' * (threads > 1)}")
            )
    return max(found, default=None)


def _keeping(results: Results) -> Ratio:
    """What is left of the rate, mapped or pooled: the smaller share. Each turn has the median of
    its pairs.
    """
    found: list[tuple[float, str]] = []
    for setup in ("mapped", "pooled"):
        kept = _find(results, "keeping", setup)
        shares = _facts(kept, "share")
        if kept is not None and shares:
            found.append(
                (
                    statistics.median(shares),
                    f"{metric(statistics.median(_rates(kept)), '/s')}, {setup}",
                )
            )
    return min(found, default=None)


def _scan_rate(results: Results) -> Ratio:
    rates = _facts(_find(results, "recovery", "mapped", form="scan"), "log_bytes_s")
    return (
        (statistics.median(rates) / 1e9, metric(statistics.median(rates), "B/s")) if rates else None
    )


def _facts(result: Case | None, name: str) -> list[float]:
    facts = [] if result is None else [sample["facts"].get(name) for sample in result["samples"]]
    return [fact for fact in facts if isinstance(fact, float)]


def _named_ns(results: Results) -> Ratio:
    """What keeping the place adds to a record, in nanoseconds: each turn has the median of its
    pairs.
    """
    added = _facts(_find(results, "read-named", "pooled"), "added_s")
    return (
        (statistics.median(added) * 1e9, f"{metric(statistics.median(added), 's')} more")
        if added
        else None
    )


def _open_ms(results: Results) -> Ratio:
    found = _find(results, "open", "mapped", form="append")
    if found is None or found["median"] is None:
        return None
    segments = found["samples"][0]["facts"]["segments"]
    return found["median"] * 1e3, f"{metric(found['median'], 's')}, {segments} segments"


GOALS = (
    Goal(
        "append 40 B, pooled, async: times as fast as pure Python into a mapped file",
        4.0,
        lambda results: _quotient(
            _find(results, "append-python", "pooled"),
            _find(results, "append-python", "python-mmap"),
            _rates,
            "/s",
        ),
    ),
    Goal(
        "append 40 B, async: mapped takes as long as pooled, times",
        1.5,
        lambda results: _quotient(
            _append(results, "mapped"), _append(results, "pooled"), _times, "s"
        ),
        least=False,
    ),
    Goal("append_many: times the rate of single appends", 1.4, _forms("batch")),
    Goal("append_array: times the rate of single appends", 5.0, _forms("array")),
    Goal(
        "values(), 40 B: times the rate of single appends",
        1.0,
        lambda results: _quotient(
            _read(results, "values"), _append(results, "pooled"), _rates, "/s"
        ),
    ),
    Goal(
        "records, 40 B: times the rate of values()",
        0.4,
        lambda results: _quotient(
            _read(results, "records"), _read(results, "values"), _rates, "/s"
        ),
    ),
    Goal(
        "read_batch, 40 B: times the rate of values()",
        2.0,
        lambda results: _quotient(
            _read(results, "read_batch"), _read(results, "values"), _rates, "/s"
        ),
    ),
    Goal(
        "values(), 40 B, backward: takes as long as forward, times",
        3.0,
        _backward("values"),
        least=False,
    ),
    Goal(
        "read_batch, 40 B, backward: takes as long as forward, times",
        3.0,
        _backward("read_batch"),
        least=False,
    ),
    Goal(
        "values() of a named tailer, 40 B: nanoseconds a record more than without a name",
        10.0,
        _named_ns,
        least=False,
    ),
    Goal(
        "constant rate, p99.9: pooled against mapped, not pre-faulted",
        1 / 20,
        _tail_against("mapped-cold"),
        least=False,
    ),
    Goal(
        "constant rate, p99.9: pooled against mapped, pre-faulted",
        1 / 5,
        _tail_against("mapped"),
        least=False,
    ),
    Goal(
        "sustained, pooled: share of what pwrite and fdatasync reach",
        0.85,
        lambda results: _quotient(
            _find(results, "sustained", "pooled"),
            _find(results, "sustained", "plain-write"),
            _rates,
            "B/s",
        ),
    ),
    Goal(
        "sync append, one thread, mapped: times a bare one-page msync",
        1.3,
        lambda results: _quotient(
            _sync(results, 1), _find(results, "sync-threads", "page-msync"), _times, "s"
        ),
        least=False,
    ),
    Goal(
        "sync append, mapped: 16 threads, times the rate of one",
        _sixteen_limit,
        lambda results: _quotient(_sync(results, 16), _sync(results, 1), _rates, "/s"),
    ),
    Goal(
        "sync append, mapped, each flush delayed: 16 threads, times the rate of one",
        8.0,
        _slow_sixteen,
    ),
    Goal("sync append: pooled and mapped apart, times", 1.15, _apart, least=False),
    Goal(
        "append 40 B with index, listener and retention: share of the rate without", 0.97, _keeping
    ),
    Goal("recovery scan, GB/s", 1.0, _scan_rate),
    Goal("open of a clean log of 1,000 segments, ms", 50.0, _open_ms, least=False),
)
