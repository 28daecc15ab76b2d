"""Print each price update on the bus. Start object_writer.py before or after it."""

from __future__ import annotations

import itertools

from place import options, until_ctrl_c
from price_update import PriceUpdate

from commitlog import bus


def main() -> None:
    chosen = options(__doc__, "objects").parse_args()
    with until_ctrl_c(), bus.reader(chosen.path, [PriceUpdate], wait=None) as reader:
        for update in itertools.islice(reader.follow(), chosen.limit):
            print(f"Read: {update}", flush=True)


if __name__ == "__main__":
    main()
