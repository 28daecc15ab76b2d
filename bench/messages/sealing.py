"""What sealing costs: records of 1 KiB, in lists and one by one, beside the same ones unsealed, and
bound to their positions.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import commitlog
from commitlog import topics
from commitlog.topics.data_key import DataKey

BYTES = 1024
LIST = 1000
LISTS = 20
GOAL_GB_S = 1.0
_LINE = "bench:" + "A" * 43 + "="


def gigabytes_a_second(work: Callable[[], int]) -> float:
    """Return the rate of the bytes that `work` counts, of this thread's processor time."""
    begin = time.thread_time_ns()
    count = work()
    return count / (time.thread_time_ns() - begin)


def measured(folder: Path) -> dict[str, float]:
    """Measure each case once, in a new log."""
    ring = topics.KeyRing.of_text(_LINE)
    messages = [os.urandom(BYTES) for _ in range(LIST)]
    found = {}
    with commitlog.open(folder / "log", flush="none", segment_size="256MiB") as log:
        data_key = DataKey.new(ring, log, 1)
        names = {"unsealed": (None, False), "sealed": (ring, False), "bound": (ring, True)}
        opened = {
            name: commitlog.topic(
                log, bytes, name=name, codec="msgpack", keys=keys, seal_positions=is_bound
            )
            for name, (keys, is_bound) in names.items()
        }

        def ciphers() -> int:
            for _ in range(LISTS):
                data_key.seal_all(messages, [None] * len(messages))
            return LISTS * LIST * BYTES

        found["seal in lists"] = gigabytes_a_second(ciphers)
        for name, topic in opened.items():

            def appended_lists(topic: topics.Topic[bytes] = topic) -> int:
                for _ in range(LISTS):
                    topic.append_many(messages)
                return LISTS * LIST * BYTES

            def appended(topic: topics.Topic[bytes] = topic) -> int:
                for value in messages:
                    topic.append(value)
                return LIST * BYTES

            def read(topic: topics.Topic[bytes] = topic) -> int:
                return sum(map(len, topic.tailer()))

            found[f"append_many, {name}"] = gigabytes_a_second(appended_lists)
            found[f"append, {name}"] = gigabytes_a_second(appended)
            found[f"read, {name}"] = gigabytes_a_second(read)
    shutil.rmtree(folder / "log")
    return found


def report(rounds: list[dict[str, float]]) -> None:
    """Print the medians of the rounds."""
    print(f"sealed messages of {BYTES} bytes, lists of {LIST}")
    for name in rounds[0]:
        rate = statistics.median(each[name] for each in rounds)
        goal = f" (goal: at least {GOAL_GB_S:.0f})" if name == "seal in lists" else ""
        print(f"  {name:<23} {rate:6.2f} GB/s, {BYTES / rate:5.0f} ns{goal}")
