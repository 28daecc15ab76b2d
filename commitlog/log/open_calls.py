"""The calls that open a log: `commitlog.open`, and `extension.open_source`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Unpack

from commitlog.base.path import path_of, translate_refusals
from commitlog.log.commit_log import CommitLog
from commitlog.log.open_log import OpenLog
from commitlog.log.opened import check_mode
from commitlog.log.opening import open_for_writing
from commitlog.log.parts import Mode
from commitlog.log.reading import open_for_reading, open_source_log
from commitlog.options import OptionOverrides, Options
from commitlog.source.segment_source import SegmentSource
from commitlog.source.source_directory import SourceDirectory

_OVERRIDES = """    **overrides
        Single options by name: see `Options`."""


def open_log(
    path: str | os.PathLike[str],
    mode: Mode = "a",
    options: Options | None = None,
    **overrides: Unpack[OptionOverrides],
) -> CommitLog:
    """Open a log; create it if the path has none.

    Parameters
    ----------
    path : str or path-like
        The log's directory.
    mode : {"a", "x", "r"}
        "a": append, and create the log if it is missing. "x": create the log, which must not exist.
        "r": read; the log must exist, and no record is changed.
    options : Options, optional
        The options; several logs may share them.
    **overrides
        Single options by name: see `Options`.

    Returns
    -------
    CommitLog
        Close it, or use it in a `with` statement.

    Raises
    ------
    InvalidOptionError, LogNotFoundError, LogExistsError, NotALogError
        The arguments or the path prevent the open; nothing was changed.
    LogLockedError, OpenTimeoutError
        Another handle prevents the open; nothing was changed.
    UnsupportedVersionError, UnsupportedError, CorruptSegmentError, ReadOnlyError, DiskFullError
        The log's files or the file system prevent the open; nothing was changed.
    """
    check_mode(mode)
    chosen = Options.of(options, **overrides)
    where = path_of(path)
    with translate_refusals(where):
        reads = mode == "r"
        opened = open_for_reading(where, chosen) if reads else open_for_writing(where, mode, chosen)
        return CommitLog(OpenLog(mode, opened, chosen))


def _with_options(call: Callable[..., CommitLog]) -> None:
    """Have `help` and notebooks show each option of a call, with its type and default."""
    shown, options = inspect.signature(call), inspect.signature(Options)
    types = OptionOverrides.__annotations__
    named = [
        each.replace(kind=each.KEYWORD_ONLY, annotation=types[each.name].__forward_arg__)
        for each in options.parameters.values()
    ]
    *given, _ = shown.parameters.values()
    call.__signature__ = shown.replace(parameters=[*given, *named])  # type: ignore[attr-defined]
    if call.__doc__ and Options.__doc__:  # neither under -OO
        described = Options.__doc__.partition("    ----------\n")[2].partition("\n    Raises")[0]
        call.__doc__ = call.__doc__.replace(_OVERRIDES, described.rstrip())


_with_options(open_log)


def open_source(
    source: SegmentSource, options: Options | None = None, **overrides: Unpack[OptionOverrides]
) -> CommitLog:
    """Open the log of a source for reading. The log closes the source, also if this raises.

    Parameters
    ----------
    source : SegmentSource
        Where the segments come from.
    options : Options, optional
        The options; `Tuning.archive_cache` is how many bytes of segments stay in the temporary
        folder.
    **overrides
        Single options by name: see `Options`.

    Returns
    -------
    CommitLog
        Close it, or use it in a `with` statement.

    Raises
    ------
    CorruptSegmentError
        What the source returns does not fit together, or is damaged.
    """
    chosen = Options.of(options, **overrides)
    with translate_refusals(source.location):
        directory = SourceDirectory(source, chosen.tuning.archive_cache)
        return CommitLog(OpenLog("r", open_source_log(directory, chosen), chosen))
