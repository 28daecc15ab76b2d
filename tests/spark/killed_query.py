"""A streaming query from text files to a log, as a program that a test can kill: python -m
tests.spark.killed_query FOLDER MASTER.
"""

from __future__ import annotations

import sys
from pathlib import Path

from commitlog.spark import session
from tests.spark.conftest import SETTINGS
from tests.spark.harmed import HarmedSource


def main(folder: Path, master: str) -> None:
    config = {
        **SETTINGS,
        "spark.local.dir": str(folder / "spark"),
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
    }
    spark = session("killed", master=master, config=config)
    spark.dataSource.register(HarmedSource)
    frame = (
        spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder / "source"))
    )
    query = (
        frame.repartition(2)
        .writeStream.format("harmed_commitlog")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("harm", str(folder / "harm"))
        .option("segmentSize", "64KiB")
        .trigger(availableNow=True)
        .start(str(folder / "log"))
    )
    query.awaitTermination()
    found = (
        spark.read.format("commitlog")
        .load(str(folder / "log"))
        .selectExpr("cast(value as string) as value")
    )
    print(f"{found.count()} records, {found.distinct().count()} different", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
