"""What the contracts share: a log of every setup."""

from __future__ import annotations

import functools

import pytest

from tests.setups import Logs, Open, Setup


@pytest.fixture
def open_log(logs: Logs, setup: Setup) -> Open:
    """Opens logs that run as the setup says."""
    return functools.partial(logs.open_as, setup)
