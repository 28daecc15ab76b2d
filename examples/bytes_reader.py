"""Print each raw message that bytes_writer.py writes to a bus, read into one reused buffer."""

from __future__ import annotations

from options import parser_of, until_ctrl_c

from commitlog import bus


def main() -> None:
    chosen = parser_of(__doc__, "bytes").parse_args()
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
