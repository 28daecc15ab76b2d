"""Print each price update on a bus. Start object_writer.py before or after this program."""

from __future__ import annotations

from options import parser_of, until_ctrl_c
from price_update import PriceUpdate

from commitlog import bus


def main() -> None:
    chosen = parser_of(__doc__, "objects").parse_args()
    update = PriceUpdate.blank()
    with until_ctrl_c(), bus.reader(chosen.path, wait=None) as reader:
        seen = 0
        while (chosen.limit is None or seen < chosen.limit) and reader.next(timeout=None):
            if reader.type == PriceUpdate.type:
                reader.read(into=update)  # the same object each time
                print(f"Read: {update}", flush=True)
                seen += 1


if __name__ == "__main__":
    main()
