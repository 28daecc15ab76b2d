"""``python -m bench.replicated [DIR]``: appends that wait for a copy, a stream to a new copy, and
what a follower costs appends that do not wait.

The follower is a process of its own. With ``--namespace`` it is in a network namespace, joined to
this one by a veth, which needs root. With ``--delay-ms`` a proxy delays each byte on each way; the
kernel need not have netem. ``--turns 1 --appends 100 --mebibytes 64`` takes seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.arguments import parser_of
from bench.peers.programs import MissingError
from bench.replicated.peer import Peer
from bench.replicated.rocketmq import beside_rocketmq
from bench.replicated.rows import ROWS, Setting
from commitlog.errors import CommitLogError
from commitlog.tools.bench.machine import check_disk


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print each row's figures; the exit status."""
    parser = parser_of("bench.replicated", __doc__)
    parser.add_argument("--row", action="append", choices=list(ROWS), help="only this row")
    parser.add_argument("--turns", type=int, default=7, help="turns of each row [7]")
    parser.add_argument("--appends", type=int, default=1000, help="appends of a turn [1000]")
    parser.add_argument("--mebibytes", type=int, default=512, help="size of the stream [512]")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="delay of each way [0]")
    parser.add_argument("--namespace", action="store_true", help="follow through a veth")
    parser.add_argument(
        "--peers", type=Path, metavar="HOME", help="beside RocketMQ, with its jars in HOME"
    )
    given = parser.parse_args(arguments)
    try:
        check_disk(given.directory, given.memory)
        with (
            tempfile.TemporaryDirectory(prefix="replicated-", dir=given.directory) as folder,
            Peer(namespaced=given.namespace, delay_s=given.delay_ms / 1e3) as peer,
        ):
            setting = Setting(Path(folder), peer, given.turns, given.appends, given.mebibytes)
            chosen = {name: ROWS[name] for name in given.row or ([] if given.peers else ROWS)}
            if given.peers is not None:
                home = given.peers.resolve()
                chosen["rocketmq"] = lambda setting: beside_rocketmq(setting, home)
            for name, row in chosen.items():
                figures = {key: round(value, 3) for key, value in row(setting).items()}
                print(json.dumps({"row": name, **figures}), flush=True)
    except (CommitLogError, MissingError, OSError) as error:
        print(f"replicated: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
