"""Preload: the library with which disks can fail.

It imports nothing of the package, so that mutants can be put into that later.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.preloaded import compiled

_FOLDER = "COMMITLOG_SIMULATION_SHIM"
_SHIM = Path(__file__).parents[1] / "faults" / "shim.c"


def preload(variables: dict[str, str]) -> None:
    """Add what preloads the shim to the environment of a process that is to begin."""
    folder = tempfile.mkdtemp(prefix="commitlog")
    try:
        library = compiled(_SHIM, Path(folder))
    except FileNotFoundError as error:
        sys.exit(f"the simulation needs a C compiler for its disks: {error}")
    others = variables.get("LD_PRELOAD", "")
    variables |= {"LD_PRELOAD": f"{others} {library}".strip(), _FOLDER: folder}


def is_preloaded() -> bool:
    return hasattr(ctypes.CDLL(None), "shim_begin")


def loaded() -> None:
    """Remove the library, which is mapped by now."""
    folder = os.environ.pop(_FOLDER, None)
    if folder is not None:
        shutil.rmtree(folder)
