"""Packages that only an extra of commitlog installs."""

from __future__ import annotations

from typing import Any


def pyarrow_for(what: str) -> Any:
    """Import pyarrow.

    Parameters
    ----------
    what : str
        The call that needs it, for the error.

    Raises
    ------
    ModuleNotFoundError
        pyarrow is not installed: the message names the extra.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute as _compute  # noqa: F401 - so that `pa.compute` is there
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} needs pyarrow: pip install 'commitlog-engine[arrow]'", name="pyarrow"
        ) from error
    return pa
