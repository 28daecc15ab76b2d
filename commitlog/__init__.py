"""commitlog: an embeddable, durable append log. `open` a directory, `append` bytes, read them back
with a `tailer`.
"""

from __future__ import annotations

import logging as _logging
import os as _os
import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from commitlog.errors import CommitLogError, UnsupportedError

if _sys.platform != "linux":
    raise UnsupportedError(f"commitlog runs on Linux only, not on {_sys.platform}")

from commitlog._kernel.engine import Claim
from commitlog._kernel.readers import Record
from commitlog.base.roll_cycle import RollCycle
from commitlog.log.commit_log import CommitLog
from commitlog.log.open_calls import open_log as open
from commitlog.log.views import TopicTypes as _TopicTypes
from commitlog.log.views import find_topics_by as _find_topics_by
from commitlog.options import Options, Tuning
from commitlog.pool import TransientStorePool
from commitlog.retention.retention import Retention
from commitlog.stats import Latency, LogStats
from commitlog.tail.batch import Batch
from commitlog.tail.cycles import Cycle
from commitlog.tail.tailer import Tailer
from commitlog.tail.tailer_state import TailerState

if _TYPE_CHECKING:
    from commitlog.queues.opening import open_queue as queue
    from commitlog.stores.store import Store
    from commitlog.topics.method_reading import method_reader
    from commitlog.topics.method_writer import method_writer
    from commitlog.topics.opening import open_topic as topic
else:
    _LAZY = {
        "Store": ("stores.store", "Store"),
        "method_reader": ("topics.method_reading", "method_reader"),
        "method_writer": ("topics.method_writer", "method_writer"),
        "queue": ("queues.opening", "open_queue"),
        "topic": ("topics.opening", "open_topic"),
    }

    def __getattr__(name: str) -> object:
        """Import what stores and messages need when a program first uses them."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, attribute = _LAZY[name]
        found = getattr(_import_module(f"commitlog.{module}"), attribute)
        globals()[name] = found
        return found


__version__ = "1.0.0"
__all__ = [
    "Batch",
    "Claim",
    "CommitLog",
    "CommitLogError",
    "Cycle",
    "Latency",
    "LogStats",
    "Options",
    "Record",
    "Retention",
    "RollCycle",
    "Store",
    "Tailer",
    "TailerState",
    "TransientStorePool",
    "Tuning",
    "get_include",
    "method_reader",
    "method_writer",
    "open",
    "queue",
    "topic",
]


def _topic_types(log: CommitLog, topic: str, with_key: bool) -> _TopicTypes:
    """Return the types of a topic's messages, for views: the core imports no topics."""
    from commitlog.topics.topic_types import TopicTypes

    return TopicTypes(log, topic, with_key=with_key)


_find_topics_by(_topic_types)


def get_include() -> str:
    """Return the directory with ``commitlog/capi.h``, for extensions that use the C API."""
    return _os.path.join(_os.path.dirname(__file__), "include")


_logging.getLogger("commitlog").addHandler(_logging.NullHandler())
