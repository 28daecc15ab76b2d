"""Brings a log to a consistent, durable end before an open exposes it."""

from commitlog.recovery.recovery import recover
from commitlog.recovery.unclean import Recovered

__all__ = ["Recovered", "recover"]
