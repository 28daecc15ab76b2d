"""Fixture that opens a log of every setup."""

from __future__ import annotations

import functools

import pytest

from tests.setups import Logs, Open, Setup


@pytest.fixture
def open_log(logs: Logs, setup: Setup) -> Open:
    """Return a function that opens logs of the setup."""
    return functools.partial(logs.open_as, setup)
