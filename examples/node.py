"""Pass a token round a ring of processes, over one log that all of them read and write.

Start N of them, in any order: `node.py 0 3`, `node.py 1 3`, `node.py 2 3`. The log records which
node has the token, so a node that was stopped, with or without it, continues after a restart.
"""

from __future__ import annotations

import time

from options import parser_of, until_ctrl_c

from commitlog import bus


class Token(bus.Message, type=0):
    """The token, on its way to a node."""

    to: bus.int32
    hops: bus.int64


def main() -> None:
    parser = parser_of(__doc__, "ring")
    parser.add_argument("id", type=int, metavar="ID", help="the number of this node, from 0")
    parser.add_argument("count", type=int, metavar="N", help="how many nodes there are")
    parser.add_argument(
        "--interval",
        type=float,
        default=1.0,
        help="seconds that a node keeps the token (default: %(default)s)",
    )
    chosen = parser.parse_args()
    if not 0 <= chosen.id < chosen.count:
        parser.error(f"ID must be from 0 to {chosen.count - 1}")
    token = Token.blank()  # in a new ring, node 0 has it
    turns = 0
    with until_ctrl_c(), bus.writer(chosen.path) as writer, bus.reader(chosen.path) as reader:
        while chosen.limit is None or turns < chosen.limit:
            # First read what the log held when this node started: only the last message counts.
            if reader.has_recovered and token.to == chosen.id:
                print(f"Node {chosen.id} has the token after {token.hops} hops", flush=True)
                time.sleep(chosen.interval)
                writer.write(Token((chosen.id + 1) % chosen.count, token.hops + 1))
                turns += 1
            if reader.next(timeout=None):
                reader.read(into=token)


if __name__ == "__main__":
    main()
