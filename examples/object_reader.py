"""Print each price update on a bus. Start object_writer.py before or after this program."""

from __future__ import annotations

import itertools

from options import parser_of, until_ctrl_c
from price_update import PriceUpdate

from commitlog import bus


def main() -> None:
    chosen = parser_of(__doc__, "objects").parse_args()
    with until_ctrl_c(), bus.reader(chosen.path, [PriceUpdate], wait=None) as reader:
        for update in itertools.islice(reader.follow(), chosen.limit):
            print(f"Read: {update}", flush=True)


if __name__ == "__main__":
    main()
