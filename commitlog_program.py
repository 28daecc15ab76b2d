"""The program `commitlog`. The module is outside the package, whose import takes a while: a Ctrl-C
meanwhile ends the program without a stack trace.
"""

import sys


def main() -> None:
    """Run the program."""
    try:
        from commitlog.tools.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
