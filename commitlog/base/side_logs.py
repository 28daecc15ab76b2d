"""Side logs: the small logs inside a log's directory that its copies and its store carry, too.

The queues of a log keep their state, their dead letters and delayed jobs there.
"""

from __future__ import annotations

import os
import re
import shutil

from commitlog.base.failpoint import failpoint

NEW = ".new"  # of a folder: the side log that takes its place
_OLD = ".old"
_SIDE = re.compile(r"queues/(?:\.delayed|[\w@:+][\w@:+.\-]*/(?:dead|state))")


def is_side_log(folder: object) -> bool:
    """Return whether a value names the folder of a side log, relative to its log's directory."""
    return isinstance(folder, str) and _SIDE.fullmatch(folder) is not None


def side_logs(path: str) -> list[str]:
    """Return the folders of the side logs in a log's directory, in the order of their names."""
    return sorted(
        each for each in _folders(path) if os.path.exists(os.path.join(path, each, "log.json"))
    )


def _folders(path: str) -> list[str]:
    """Return where side logs may be in a log's directory."""
    try:
        names = os.listdir(os.path.join(path, "queues"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [os.path.join("queues", name, part) for name in names for part in ("dead", "state")]
    return [each for each in [os.path.join("queues", ".delayed"), *found] if is_side_log(each)]


def put_in_place(path: str) -> None:
    """Put the whole side log beside a path, `.new`, in its place. What is there goes."""
    shutil.rmtree(path + _OLD, ignore_errors=True)
    if os.path.lexists(path):
        os.rename(path, path + _OLD)
        failpoint("side log moved aside")
    os.rename(path + NEW, path)
    failpoint("side log put in place")
    shutil.rmtree(path + _OLD, ignore_errors=True)


def finish_replacements(path: str) -> None:
    """Finish what a kill has interrupted while side logs of a log were put in place. A new one that
    is perhaps not whole goes.
    """
    for folder in _folders(path):
        side = os.path.join(path, folder)
        was_moved = os.path.lexists(side + _OLD) and not os.path.lexists(side)
        if was_moved and os.path.lexists(side + NEW):
            os.rename(side + NEW, side)
        for suffix in (NEW, _OLD):
            shutil.rmtree(side + suffix, ignore_errors=True)
