"""Work on whole logs that is worth a cluster: `export`, `compact`, `verify`. Also commands:
`commitlog spark JOB`. See docs/spark.md.
"""

from commitlog.spark.jobs.compaction import Compaction, compact
from commitlog.spark.jobs.exporting import Export, export
from commitlog.spark.jobs.verifying import LogCheck, Verification, verify

__all__ = ["Compaction", "Export", "LogCheck", "Verification", "compact", "export", "verify"]
