"""Work queues: the records of a log as jobs, each for one of several workers.

`commitlog.queue` opens a queue. A worker takes a `Job`, and accepts, releases or rejects it; what
was rejected is a `DeadLetter`. `QueueStats` has the figures.
"""

from __future__ import annotations

from commitlog.queues.dead_letters import DeadLetter
from commitlog.queues.job import Job
from commitlog.queues.queue import Queue
from commitlog.queues.queue_stats import HeldJob, QueueStats
from commitlog.queues.terms import Terms

__all__ = ["DeadLetter", "HeldJob", "Job", "Queue", "QueueStats", "Terms"]
