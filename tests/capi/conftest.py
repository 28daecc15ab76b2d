"""Builds an extension that calls the C API, as a user would: with Cython, a compiler and the
installed headers.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import commitlog

HERE = Path(__file__).parent


def compiled(source: Path, to: Path) -> Any:
    """The extension module of one C file."""
    module = to / f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = [commitlog.get_include(), sysconfig.get_path("include")]
    subprocess.run(
        [
            os.environ.get("CC", "gcc"),
            "-O0",
            "-shared",
            "-fPIC",
            "-pthread",
            "-Wall",
            *(f"-I{directory}" for directory in include),
            str(source),
            "-o",
            str(module),
        ],
        check=True,
        timeout=120,
    )
    spec = importlib.util.spec_from_file_location(source.stem, module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`probe.pyx`, built."""
    place = tmp_path_factory.mktemp("probe")
    source = place / "probe.c"
    subprocess.run(
        [sys.executable, "-m", "cython", "-3", str(HERE / "probe.pyx"), "-o", str(source)],
        check=True,
        timeout=120,
        cwd=HERE.parents[1],
    )
    return compiled(source, place)
