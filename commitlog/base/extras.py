"""Packages that only an extra of commitlog installs."""

from __future__ import annotations

import importlib
from typing import Any

from commitlog.errors import MissingExtraError

# Modules that every command may import where it uses them, and the packages that have them.
OF_CLI = {"humanize": "humanize", "rich": "rich", "textual": "textual", "yaml": "PyYAML"}


def imported(module: str, what: str, extra: str) -> Any:
    """Import a module of an extra. If it is not installed, raise `MissingExtraError`, which names
    what needs it and the extra that installs it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            _wanting(what, package, extra), name=package, extra=extra
        ) from error


def explain(error: ModuleNotFoundError) -> str:
    """Return the message of an error that ends a command, with the extra to install."""
    module = (error.name or "").partition(".")[0]
    raised_by_python = str(error).startswith("No module named")
    if raised_by_python and module in OF_CLI:
        return _wanting("this command", OF_CLI[module], "cli")
    return str(error)


def _wanting(what: str, package: str, extra: str) -> str:
    return f"{what} needs {package}: pip install 'commitlog-engine[{extra}]'"


def pyarrow_for(what: str) -> Any:
    """Import pyarrow for the call that `what` names: see `imported`."""
    return imported("pyarrow", what, "arrow")
