"""The command line: `commitlog COMMAND LOG`.

A command is a module of this package with a click command named `command`, and a line in `COMMANDS`; nothing is imported before it is
asked for. Exit status: 0 fine, 1 damage or failure, 2 usage, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys

# What `commitlog --help` lists, in this order.
COMMANDS = ("verify", "repair")

FAILURE = 1
USAGE = 2
INTERRUPTED = 130
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
        print("commitlog: the command line needs click: pip install 'commitlog-engine[cli]'", file=sys.stderr)
        return USAGE
    from commitlog.cli.group import group
    from commitlog.errors import CommitLogError

    try:
        status = group.main(arguments, prog_name="commitlog", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Whoever read has enough; where click sees it first, it exits. The interpreter would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except CommitLogError as error:
        print(f"commitlog: {error}", file=sys.stderr)
        return FAILURE
