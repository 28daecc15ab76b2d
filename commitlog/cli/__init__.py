"""The command line: `commitlog COMMAND LOG`.

A command is a module of this package with a click command named `command`, and a line in `COMMANDS`
of `group.py`. Nothing is imported before it is asked for. Exit status: 0 fine, 1 damage or failure,
2 usage, 130 Ctrl-C, 141 when whoever read the output went away.
"""

from __future__ import annotations

import codecs
import io
import os
import sys

FAILURE = 1
USAGE = 2
INTERRUPTED = 130
_COMPLETES = "_COMMITLOG_COMPLETE"  # set by a shell that asks how a line could go on
PIPE_CLOSED = 141  # as a shell says of a program that SIGPIPE ended


def main() -> None:
    """The `commitlog` program."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; the exit status.

    Parameters
    ----------
    arguments : list of str
        As after the program's name.
    """
    try:
        import click
    except ImportError:
        print(
            "commitlog: the command line needs click: pip install 'commitlog-engine[cli]'",
            file=sys.stderr,
        )
        return USAGE
    _print_any_name()
    from commitlog.cli.group import group
    from commitlog.errors import CommitLogError

    try:
        status = group.main(arguments, prog_name="commitlog", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _drop_output()
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as error:
        # Whoever read has enough; where click sees it first, it exits. So it does when it has told
        # a shell how a line could go on.
        _drop_output()
        return (
            0
            if isinstance(error, SystemExit) and not error.code and _COMPLETES in os.environ
            else PIPE_CLOSED
        )
    except (CommitLogError, ModuleNotFoundError, OSError) as error:
        if isinstance(error, OSError) and not isinstance(error, CommitLogError):
            click.echo(f"commitlog: {_told(error)}", err=True)
            _drop_output()
        else:
            click.echo(f"commitlog: {_message(error)}", err=True)
        return FAILURE


def _message(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        from commitlog.base.extras import explain

        return explain(error)
    return str(error)


def _print_any_name() -> None:
    """A path need not be text that standard output can encode; what has been done is told all the
    same, with an escape in its place. Where there is ASCII alone, nobody has said what the terminal
    takes: as with click, it is UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        encoding = (
            "utf-8" if codecs.lookup(sys.stdout.encoding).name == "ascii" else sys.stdout.encoding
        )
        sys.stdout.reconfigure(
            encoding=encoding,
            errors="backslashreplace" if sys.stdout.errors == "strict" else sys.stdout.errors,
        )


def _told(error: OSError) -> str:
    """What the system refused, in a line: a full disk behind standard output, a directory that may
    not be written.
    """
    what = error.strerror or str(error)
    return what if error.filename is None else f"{what}: {os.fsdecode(error.filename)}"


def _drop_output() -> None:
    """What could not be printed is not tried again: at its end the interpreter would, and complain,
    or wait for a reader once more.
    """
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
