"""What installed packages add to commitlog: entry points of their distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = TypeVar("Kind")


def registered(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by their names; the first of two with one name."""
    from importlib.metadata import entry_points  # takes a while

    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, entry)
    return found


def load(entry: EntryPoint, kind: type[Kind]) -> Kind | str:
    """Import what an entry point names; if that fails, return why, and what to do."""
    try:
        found = entry.load()
    except Exception as error:  # noqa: BLE001 - a package may raise anything
        why = f"{type(error).__name__}: {error}"
    else:
        if isinstance(found, kind):
            return found
        why = f"{entry.value} is not a {kind.__module__.split('.')[0]} {kind.__name__}"
    package = "its package" if entry.dist is None else f"the package {entry.dist.name}"
    return f"{why}: repair or uninstall {package}"
