"""Jobs over whole logs for a Spark cluster: `export`, `compact`, `verify`. The command
`commitlog spark JOB` runs them, too. See docs/spark.md.
"""

from commitlog.spark.jobs.compaction import Compaction, compact
from commitlog.spark.jobs.exporting import Export, export
from commitlog.spark.jobs.verifying import LogCheck, Verification, verify

__all__ = ["Compaction", "Export", "LogCheck", "Verification", "compact", "export", "verify"]
