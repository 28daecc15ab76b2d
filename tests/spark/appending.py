"""A process that appends numbered records and rolls, then waits until its standard input closes:
python appending.py LOG COUNT.
"""

from __future__ import annotations

import sys

import commitlog
from tests.spark.logs_in_spark import SIZE


def main(path: str, count: int) -> None:
    with commitlog.open(path, segment_size=SIZE) as log:
        for number in range(count):
            log.append(b"%0100d" % number)
            if number % 997 == 0:
                log.roll()
            if number == 100:
                log.flush()
                print("begun", flush=True)
        log.flush()
        print("done", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
