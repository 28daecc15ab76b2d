"""Count the words of lines that another process appends, live, and write the result to Parquet.

    python examples/spark_pipeline.py [FOLDER]

A process appends the lines of Python's help texts to the log `lines`. Spark reads them as they
arrive. After each batch, it appends the count of each word to the log `counts`, keyed by the word.
After the last line, the latest count of each word goes to the log `latest`, and from there to
Parquet files. At the end, the result is compared with a count in plain Python.

It needs the extra `spark`: pip install 'commitlog-engine[spark]'.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import pyarrow.dataset as ds

import commitlog
from commitlog.spark import session
from commitlog.spark.jobs import compact, export

LINES_AT_ONCE = 500
WORD = "[A-Za-z]+"


def text() -> list[str]:
    """Return the lines."""
    return [line for name in sorted(topics) for line in topics[name].splitlines() if line.strip()]


def append(folder: Path) -> None:
    """Append the lines in batches, and make each durable, in the other process."""
    lines = text()
    with commitlog.open(folder / "lines") as log:
        for start in range(0, len(lines), LINES_AT_ONCE):
            log.append_many([line.encode() for line in lines[start : start + LINES_AT_ONCE]])
            log.flush()


def count_words(folder: Path) -> None:
    """Run the query until it has counted every line that the other process appends."""
    spark = session(
        "words",
        config={
            "spark.sql.shuffle.partitions": "2",
            "spark.log.level": "ERROR",
            "spark.ui.enabled": "false",
        },
    )
    try:
        with commitlog.open(folder / "lines"):
            pass  # the query needs a log to read
        lines = (
            spark.readStream.format("commitlog")
            .option("startingOffsets", "earliest")
            .load(str(folder / "lines"))
        )
        words = lines.selectExpr(
            f"explode(regexp_extract_all(lower(cast(value as string)), '{WORD}', 0)) as word"
        )
        counts = (
            words.groupBy("word")
            .count()
            .selectExpr("word as key", "cast(count as string) as value")
        )
        query = (
            counts.writeStream.format("commitlog")
            .outputMode("complete")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start(str(folder / "counts"))
        )
        subprocess.run([sys.executable, __file__, "--append", str(folder)], check=True)
        query.processAllAvailable()
        query.stop()
        done = compact(spark, str(folder / "counts"), str(folder / "latest"))
        print(f"{done.read} counts appended, {done.kept} words")
        print(
            f"{export(spark, str(folder / 'latest'), str(folder / 'parquet'), text=True).files} "
            f"Parquet files in {folder / 'parquet'}"
        )
    finally:
        spark.stop()


def check(folder: Path) -> None:
    """Compare the Parquet files with a count in plain Python."""
    expected = Counter(word for line in text() for word in re.findall(WORD.lower(), line.lower()))
    table = ds.dataset(folder / "parquet", partitioning="hive").to_table(columns=["key", "value"])
    found = {
        key.decode(): int(value)
        for key, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    }
    if found != expected:
        raise SystemExit("the counts differ from those of plain Python")
    print(
        f"correct: {len(found)} words, {sum(found.values())} in all; most often "
        f"{', '.join(word for word, _ in expected.most_common(5))}"
    )


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--append"]:
        append(Path(arguments[1]))
    elif arguments:
        count_words(Path(arguments[0]))
        check(Path(arguments[0]))
    else:
        with tempfile.TemporaryDirectory(prefix="commitlog-words-") as folder:
            main([folder])


if __name__ == "__main__":
    main(sys.argv[1:])
