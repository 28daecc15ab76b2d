"""The verdict on a machine's noise."""

from __future__ import annotations

import pytest

from commitlog.tools.bench import noise
from tests.tools.bench.made import paced, result_of, run_of


@pytest.mark.parametrize(
    ("delay_s", "alone_ns", "rates", "level"),
    [
        (0.001, 50_000, [2e5, 2.01e5], "quiet"),
        (0.030, 50_000, [2e5, 2.01e5], "restless"),
        (0.300, 50_000, [2e5, 2.01e5], "noisy"),
        (0.001, 500_000, [2e5, 2.01e5], "restless"),
        (0.001, 5_000_000, [2e5, 2.01e5], "noisy"),
        (0.001, 50_000, [2e5, 2.8e5], "restless"),
        (0.001, 50_000, [2e5, 5e5], "noisy"),
    ],
)
def test_worst_sign_is_the_verdict(
    delay_s: float, alone_ns: int, rates: list[float], level: str
) -> None:
    results = run_of(
        paced("pacing-alone", alone_ns, delay_s=0.0, rates=rates),
        paced("pooled", 1_000_000, delay_s=delay_s, rates=rates),
    )
    verdict = noise.judge(results)
    assert verdict.level == level
    assert len(verdict.signs) == 3


def test_single_turn_of_bursts_has_an_unknown_verdict() -> None:
    verdict = noise.judge(run_of(result_of("append", "mapped", [1e6])))
    assert (verdict.level, verdict.signs) == ("unknown", ())


def test_uncounted_delay_is_no_sign() -> None:
    verdict = noise.judge(run_of(paced("pooled", 1_000_000, delay_s=None, rates=[2e5])))
    assert verdict.level == "unknown"


def test_quick_run_is_not_judged() -> None:
    assert noise.judge(run_of(paced("pooled", 1_000_000, delay_s=9.0), quick=True)).signs == ()
