"""Write price updates to a bus, one a second. Start it as source 0 and as source 1, with
object_reader.py in a third terminal.
"""

from __future__ import annotations

import time

from options import parser_of, until_ctrl_c
from price_update import PriceUpdate

from commitlog import bus


def main() -> None:
    parser = parser_of(__doc__, "objects")
    parser.add_argument("source", type=int, help="the number of this writer, such as 0 or 1")
    parser.add_argument(
        "--interval",
        type=float,
        default=1.0,
        help="seconds between two updates (default: %(default)s)",
    )
    chosen = parser.parse_args()
    update = PriceUpdate(source=chosen.source, price=20, quantity=40)
    with until_ctrl_c(), bus.writer(chosen.path) as writer:
        written = 0
        while chosen.limit is None or written < chosen.limit:
            writer.write(update)
            written += 1
            print(f"Sent: {update}", flush=True)
            time.sleep(chosen.interval)


if __name__ == "__main__":
    main()
