"""The commands. Each module has a click command named `command`; with dashes for underscores, the
name of the module is that of the command.
"""

from __future__ import annotations

import click


class UnsuggestedCommand(click.Command):
    """A command that deletes or changes records: no typo, such as `demo` for `remove`, leads to
    it.
    """
