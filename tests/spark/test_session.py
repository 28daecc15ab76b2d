"""The session that commitlog makes."""

from __future__ import annotations

import sys
from typing import Any

from commitlog.spark import session


def test_workers_run_with_this_interpreter(spark: Any) -> None:
    def executable(rows: Any) -> Any:
        import sys

        yield sys.executable

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(executable).collect() == [sys.executable]


def test_the_function_stays_where_it_was(spark: Any) -> None:
    from commitlog.spark import session as again

    assert again is session


def test_where_a_session_is_active_it_is_taken(spark: Any) -> None:
    assert session() is spark
