"""What a check of `commitlog doctor` is made of, for packages that add one: `Check`."""

from commitlog.tools.doctor.checks import Check
from commitlog.tools.doctor.finding import Finding, Verdict, Workspace, failed, ok, warning

__all__ = ["Check", "Finding", "Verdict", "Workspace", "failed", "ok", "warning"]
