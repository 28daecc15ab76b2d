"""Make the signatures of the reference: those that users call, with the types of the stubs.

Autodoc imports the compiled modules, which have docstrings; the types are in the stubs beside them.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import commitlog

# The classes that a user's program calls, apart from dataclasses.
CALLED = {"LogCollector", "LogWatch", "TransientStorePool"}
KERNEL = Path(__file__).resolve().parents[2] / "commitlog" / "_kernel"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-signature", replace_signature)
    return {"parallel_read_safe": True}


def replace_signature(
    app: Sphinx,
    what: str,
    name: str,
    documented: Any,
    *_: Any,
) -> tuple[str, str | None] | None:
    """Show constructors that users call; take a compiled method's signature from its stub."""
    if what in {"class", "exception"}:
        if documented in {commitlog.Options, commitlog.Tuning}:
            return without_types(documented), None
        is_called = dataclasses.is_dataclass(documented) or documented.__name__ in CALLED
        return None if is_called else ("", None)
    if what != "method" or inspect.isfunction(documented):
        return None
    stub = stubs().get(getattr(documented, "__qualname__", ""))
    if stub is None:
        return None
    stub.args.args = [argument for argument in stub.args.args if argument.arg != "self"]
    return f"({ast.unparse(stub.args)})", ast.unparse(stub.returns) if stub.returns else None


def without_types(documented: type) -> str:
    """Return the constructor's signature with defaults alone: the types are those of the text."""
    parameters = inspect.signature(documented).parameters.values()
    tuning = repr(commitlog.Tuning())
    defaults = [f"{each.name}={each.default!r}".replace(tuning, "Tuning()") for each in parameters]
    return f"(*, {', '.join(defaults)})"


@cache
def stubs() -> dict[str, ast.FunctionDef]:
    """Return the methods of all stubs by class and name."""
    bodies = [ast.parse(path.read_text()).body for path in KERNEL.glob("*.pyi")]
    classes = [node for body in bodies for node in body if isinstance(node, ast.ClassDef)]
    return {
        f"{owner.name}.{node.name}": node
        for owner in classes
        for node in owner.body
        if isinstance(node, ast.FunctionDef)
    }
