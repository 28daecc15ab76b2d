"""`commitlog completion`: what makes a shell complete commands, options, paths and the names of tailers."""

from __future__ import annotations

import contextlib
import os

import click
from click.shell_completion import CompletionItem, get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commitlog's commands, options, paths, and names of tailers.

    \b
    Examples:
      eval "$(commitlog completion bash)"      # in ~/.bashrc
      eval "$(commitlog completion zsh)"       # in ~/.zshrc
      commitlog completion fish > ~/.config/fish/completions/commitlog.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    group = context.find_root().command
    # Not its method `source`, which runs a bash to ask for its version.
    completion = kind(group, {}, "commitlog", "_COMMITLOG_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())


def tailer_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the log's tailers, where the log stands before the name."""
    names: list[str] = []
    # While an option lacks its value, click leaves what else stands there in `args`.
    for log in filter(None, [context.params.get("log"), *context.args]):
        with contextlib.suppress(OSError):
            names += os.listdir(os.path.join(log, "tailers"))
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete) and not name.startswith(".")]
