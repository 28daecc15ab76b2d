"""Brings a log to a consistent, durable end before an open exposes it."""

from commitlog.recovery.recovered import Recovered
from commitlog.recovery.recovery import recover

__all__ = ["Recovered", "recover"]
