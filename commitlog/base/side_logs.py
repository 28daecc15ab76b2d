"""Side logs: the small logs inside a log's directory that its copies and its store carry, too.

The queues of a log keep their state, their dead letters and delayed jobs there.
"""

from __future__ import annotations

import os
import re

_SIDE = re.compile(r"queues/(?:\.delayed|[\w@:+][\w@:+.\-]*/(?:dead|state))")


def is_side_log(folder: object) -> bool:
    """Return whether a value names the folder of a side log, relative to its log's directory."""
    return isinstance(folder, str) and _SIDE.fullmatch(folder) is not None


def side_logs(path: str) -> list[str]:
    """Return the folders of the side logs in a log's directory, in the order of their names."""
    found = [os.path.join("queues", ".delayed")]
    try:
        names = os.listdir(os.path.join(path, "queues"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found += [os.path.join("queues", name, part) for name in names for part in ("dead", "state")]
    return sorted(
        each
        for each in found
        if is_side_log(each) and os.path.exists(os.path.join(path, each, "log.json"))
    )
