"""Small C programs and libraries that a run compiles for itself, where there is a gcc."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from commitlog.bench.ground import SkippedError

_LIMIT_S = 60


class NoCompilerError(SkippedError):
    """There is no gcc, or it did not compile; the run goes on without what needs it."""


def build(directory: Path, name: str, source: str, *flags: str) -> Path:
    """Compile a source, once for each directory and name.

    Raises
    ------
    NoCompilerError
        With what to do about it.
    """
    product, failed = directory / name, directory / f"{name}.failed"
    if product.exists():
        return product
    if failed.exists():
        raise NoCompilerError(failed.read_text(encoding="utf-8"))
    gcc = shutil.which("gcc")
    if gcc is None:
        raise NoCompilerError(
            "this needs gcc, and there is none: install it (Debian, Ubuntu: apt install gcc "
            "libc6-dev)"
        )
    file = directory / f"{name}.c"
    file.write_text(source, encoding="utf-8")
    command = [gcc, "-O2", "-o", str(product), str(file), *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
    )
    if done.returncode:
        product.unlink(missing_ok=True)
        message = (
            f"gcc could not compile {name}: "
            f"{(done.stderr.strip() or 'it said nothing').splitlines()[0]}"
        )
        failed.write_text(message, encoding="utf-8")
        raise NoCompilerError(message)
    return product
