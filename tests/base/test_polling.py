"""Attempts: the number of polls, their end, and the message of a long wait."""

from __future__ import annotations

import logging
import time

import pytest

from commitlog.base import polling
from commitlog.base.polling import attempts


def test_timeout_of_zero_polls_once() -> None:
    assert len(list(attempts(0, "nothing"))) == 1


def test_last_poll_is_not_before_the_timeout() -> None:
    began_s = time.monotonic()
    looks_s = [time.monotonic() - began_s for _ in attempts(0.02, "nothing")]
    assert looks_s[0] < looks_s[-1]
    assert looks_s[-1] >= 0.02


def test_interval_longer_than_the_timeout_is_cut() -> None:
    assert len(list(attempts(0.01, "nothing", interval_s=100))) == 2


def test_long_wait_logs_its_reason_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(polling, "_SILENCE_S", 0.0)
    with caplog.at_level(logging.INFO, logger="commitlog"):
        for _ in attempts(0.02, "a writer"):
            pass
    assert caplog.messages == ["waiting for a writer, at most 0.02 s"]
