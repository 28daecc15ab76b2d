"""Write ten raw bytes to a bus, one message a second; bytes_reader.py prints them."""

from __future__ import annotations

import time

from options import parser_of, until_ctrl_c

from commitlog import bus


def main() -> None:
    parser = parser_of(__doc__, "bytes")
    parser.add_argument(
        "--interval",
        type=float,
        default=1.0,
        help="seconds between two messages (default: %(default)s)",
    )
    chosen = parser.parse_args()
    content = bytearray(10)
    with until_ctrl_c(), bus.writer(chosen.path) as writer:
        written = 0
        while chosen.limit is None or written < chosen.limit:
            content[:] = bytes([written % 256]) * len(content)
            writer.write(content)
            written += 1
            print(f"Sent: {list(content)}", flush=True)
            time.sleep(chosen.interval)


if __name__ == "__main__":
    main()
