"""Tells Spark of the commit log source: it imports every module whose name begins like this one's
when it first looks a format up.
"""

from commitlog.spark.source import CommitLogSource as DefaultSource

__all__ = ["DefaultSource"]
