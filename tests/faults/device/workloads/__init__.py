"""The workloads, by name."""

from __future__ import annotations

from tests.faults.device.workload import Workload
from tests.faults.device.workloads import appending

WORKLOADS: dict[str, Workload] = {
    each.name: each for module in (appending,) for each in module.WORKLOADS
}
