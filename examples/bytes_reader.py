"""Prints each raw message on the bus that bytes_writer.py writes, read into one buffer again and
again.
"""

from __future__ import annotations

from place import options, until_ctrl_c

from commitlog import bus


def main() -> None:
    chosen = options(__doc__, "bytes").parse_args()
    buffer = bytearray(10)
    with until_ctrl_c(), bus.reader(chosen.path, wait=None) as reader:
        seen = 0
        while (chosen.limit is None or seen < chosen.limit) and reader.next(timeout=None):
            if reader.length > len(buffer):
                buffer = bytearray(reader.length)
            length = reader.read(into=buffer)
            print(f"Read: {list(buffer[:length])}", flush=True)
            seen += 1


if __name__ == "__main__":
    main()
