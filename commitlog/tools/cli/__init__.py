"""The command line: `commitlog COMMAND LOG`.

A command is a module of `commands` with a click command named `command`; installed packages add
others: see `group.py`. A command is imported when it runs. Exit status: 0 success, 1 damage or
failure, 2 wrong usage, 130 Ctrl-C, 141 the reader of the output went away.
"""

from __future__ import annotations

import codecs
import errno
import io
import logging
import os
import sys

FAILURE = 1
USAGE = 2
INTERRUPTED = 130
_COMPLETES = "_COMMITLOG_COMPLETE"  # a shell sets it to ask for completions
PIPE_CLOSED = 141  # 128 + SIGPIPE, as in a shell
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """Run the `commitlog` program."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command, given without the name of the program; return its exit status."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:  # while modules were imported
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    try:
        import click
    except ImportError:
        print(
            "commitlog: the command line needs click: pip install 'commitlog-engine[cli]'",
            file=sys.stderr,
        )
        return USAGE
    _print_any_name()
    from commitlog.errors import CommitLogError
    from commitlog.errors.printable import printable
    from commitlog.tools.cli.group import group

    logger, warnings = logging.getLogger("commitlog"), _Warnings(logging.WARNING)
    logger.addHandler(warnings)
    try:
        status = group.main(
            arguments,
            prog_name="commitlog",
            standalone_mode=False,
            color=None if has_color() else False,
        )
        if sys.stdout is not None:
            sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        if isinstance(error, click.UsageError):
            shown = io.StringIO()
            error.show(shown)  # with the usage of the command
            click.echo("\n".join(map(printable, shown.getvalue().splitlines())), err=True)
        else:
            click.echo(f"commitlog: {printable(error.format_message())}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _drop_output()
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:
        # click turns a broken pipe into SystemExit; it also exits so after it printed completions.
        _drop_output()
        return (
            0
            if isinstance(error, SystemExit) and not error.code and _COMPLETES in os.environ
            else PIPE_CLOSED
        )
    except (CommitLogError, ModuleNotFoundError, OSError) as error:
        if isinstance(error, OSError) and not isinstance(error, CommitLogError):
            click.echo(f"commitlog: {printable(_message_of(error))}", err=True)
            _drop_output()
        else:
            click.echo(f"commitlog: {_text_of(error)}", err=True)
        return FAILURE
    finally:
        logger.removeHandler(warnings)


def has_color() -> bool:
    """Return whether to color the output: it is a terminal that knows colors, and the user has not
    refused them by NO_COLOR (https://no-color.org).
    """
    return (
        sys.stdout is not None
        and sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


class _Warnings(logging.Handler):
    """Print what the library warns of, such as what recovery cut, as a line on standard error.

    The report of `commitlog repair` has what a repair logs.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name != "commitlog.repair"

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            from commitlog.errors.printable import printable

            print(f"commitlog: {printable(record.getMessage())}", file=sys.stderr)


def _text_of(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        from commitlog.base.extras import explain

        return explain(error)
    return str(error)


def _print_any_name() -> None:
    """Let standard output escape what it cannot encode, such as a path that is not UTF-8. ASCII is
    the default of an unset locale: write UTF-8 instead, as click does.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = (
            "utf-8" if codecs.lookup(sys.stdout.encoding).name == "ascii" else sys.stdout.encoding
        )
        sys.stdout.reconfigure(
            encoding=encoding,
            errors="backslashreplace" if sys.stdout.errors == "strict" else sys.stdout.errors,
        )


def _message_of(error: OSError) -> str:
    """Return the message of a failed system call. A failed write to the output names no file."""
    what = error.strerror or str(error)
    if error.filename is None:
        return f"cannot write the output: {what}" if error.errno in _WRITE_ERRORS else what
    return f"{what}: {os.fsdecode(error.filename)}"


def _drop_output() -> None:
    """Discard what could not be printed: the interpreter would write it again when it exits, and
    fail or block.
    """
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
