"""Packages that only an extra of commitlog installs."""

from __future__ import annotations

import importlib
from typing import Any


def imported(module: str, what: str, extra: str) -> Any:
    """Import a module of an extra.

    Parameters
    ----------
    module : str
        Its name.
    what : str
        What needs it, for the error.
    extra : str
        The extra that installs it.

    Raises
    ------
    ModuleNotFoundError
        It is not installed: the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        why = f"{what} needs {package}: pip install 'commitlog-engine[{extra}]'"
        raise ModuleNotFoundError(why, name=package) from error


def pyarrow_for(what: str) -> Any:
    """Import pyarrow for the call that `what` names: see `imported`."""
    imported("pyarrow.compute", what, "arrow")  # so that `pa.compute` is there
    return imported("pyarrow", what, "arrow")
