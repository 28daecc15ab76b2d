"""The workloads, by name."""

from __future__ import annotations

from tests.faults.device.workload import Workload
from tests.faults.device.workloads import (
    appending,
    copies,
    keeping,
    messages,
    names,
    queues,
    recovering,
)

WORKLOADS: dict[str, Workload] = {
    each.name: each
    for module in (appending, keeping, names, messages, copies, recovering, queues)
    for each in module.WORKLOADS
}
