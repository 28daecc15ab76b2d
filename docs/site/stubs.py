"""Add the types of the stubs to the signatures of the compiled classes.

Autodoc imports the compiled modules, which have docstrings; the types are in the stubs beside them.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

KERNEL = Path(__file__).resolve().parents[2] / "commitlog" / "_kernel"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-signature", replace_signature)
    return {"parallel_read_safe": True}


def replace_signature(app: Sphinx, what: str, name: str, documented: Any, *_: Any) -> tuple[str, str | None] | None:
    """Take a compiled method's signature from its stub; leave out non-public constructors."""
    if what == "class":
        made_by_a_call = (documented.__init__.__doc__ or "").startswith("Made by")
        compiled = documented.__module__.startswith("commitlog._kernel")
        return ("", None) if made_by_a_call or compiled else None
    if what != "method" or inspect.isfunction(documented):
        return None
    stub = stubs().get(getattr(documented, "__qualname__", ""))
    if stub is None:
        return None
    stub.args.args = [argument for argument in stub.args.args if argument.arg != "self"]
    return f"({ast.unparse(stub.args)})", ast.unparse(stub.returns) if stub.returns else None


@cache
def stubs() -> dict[str, ast.FunctionDef]:
    """Return the methods of all stubs by class and name."""
    bodies = [ast.parse(path.read_text()).body for path in KERNEL.glob("*.pyi")]
    classes = [node for body in bodies for node in body if isinstance(node, ast.ClassDef)]
    return {f"{owner.name}.{node.name}": node for owner in classes for node in owner.body if isinstance(node, ast.FunctionDef)}
