"""Where logs come from besides a directory of this machine, as installed packages announce it.

The core imports no source. A package announces its kinds of sources as entry points of the group
"commitlog.sources"; a program may register one itself. Entry points are read once, when a path is
first met that is no directory of segments.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from commitlog._kernel.segments import MAGIC
from commitlog.base.registered import load, registered
from commitlog.errors import NotALogError, UnsupportedError
from commitlog.options import Options
from commitlog.source.lone_segment import open_lone_segment
from commitlog.source.segment_source import SegmentSource
from commitlog.source.source_directory import SourceDirectory

_logger = logging.getLogger("commitlog")
_GROUP = "commitlog.sources"


def _claim_none(path: str) -> bool:
    return False


@dataclass(frozen=True)
class SourceKind:
    """One kind of source, as a package announces it.

    Attributes
    ----------
    what : str
        Its name in messages, such as "an archive".
    open : callable
        Opens the source at a path or an address.
    schemes : tuple of str
        The addresses that it opens, such as ``("tls",)`` for ``tls://``.
    claims : callable
        Returns whether it opens a path. It is asked about paths that are no log's directory and no
        segment's file, and about addresses whose scheme no kind names.
    grows : bool
        Its sources are `LiveSource`s, whose log grows while it is read: `verify` and repairs refuse
        it.
    """

    what: str
    open: Callable[[str, Options], SegmentSource]
    schemes: tuple[str, ...] = ()
    claims: Callable[[str], bool] = _claim_none
    grows: bool = False


_registered: list[SourceKind] = []


def register_source(kind: SourceKind) -> None:
    """Open paths by this kind of source from now on, in this process. It goes before those that
    packages announce.
    """
    _registered.insert(0, kind)


@cache
def _announced() -> tuple[SourceKind, ...]:
    found = []
    for name, entry in sorted(registered(_GROUP).items()):
        kind = load(entry, SourceKind)
        if isinstance(kind, str):
            _logger.warning("the source %r cannot be used: %s", name, kind)
        else:
            found.append(kind)
    return tuple(found)


def source_kind(path: str) -> SourceKind | None:
    """Return the kind of source that opens a path or an address; None for a log's directory, a
    segment's file and a path at which there is nothing.

    Raises
    ------
    UnsupportedError
        No package announces a source for the address, or none announces any.
    """
    scheme, separator, _ = path.partition("://")
    if not separator and _is_own(path):
        return None
    kinds = (*_registered, *_announced())
    for kind in kinds:
        if separator and scheme in kind.schemes:
            return kind
    for kind in kinds:
        if kind.claims(path):
            return kind
    if separator:
        raise UnsupportedError(
            f"no installed package opens an address that begins with {scheme}://: check it, or "
            "install the package",
            path=path,
        )
    if not _announced() and os.path.isdir(path):
        raise UnsupportedError(
            "this may be an archive, but no package announces a source: install commitlog-engine "
            f"by pip, so that its entry points {_GROUP!r} are known",
            path=path,
        )
    return None


def _is_own(path: str) -> bool:
    """Return whether the core opens a path itself, or there is nothing to open."""
    try:
        names = os.listdir(path)
    except NotADirectoryError:
        return _is_segment(path)
    except OSError:
        return True
    return not names or any(name.endswith(".seg") for name in names)


def _is_segment(path: str) -> bool:
    if not os.path.isfile(path):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return True


def open_source_directory(path: str, options: Options) -> SourceDirectory | None:
    """Open what a path names, if it is not a log's directory: a source, or a segment's file."""
    kind = source_kind(path)
    if kind is not None:
        return SourceDirectory(kind.open(path, options), options.tuning.archive_cache)
    if os.path.isfile(path):  # a log is a directory
        return open_lone_segment(path)
    return None


def refuse_source(path: str) -> None:
    """Refuse what is no log's directory of this machine, for operations on a log's files."""
    kind = source_kind(path)
    if kind is None:
        return
    raise NotALogError(
        f"this is {kind.what}, which can only be read: run this on its machine"
        if kind.grows
        else f"this is {kind.what}, and not a log: it can only be read, exported and verified",
        path=path,
    )
