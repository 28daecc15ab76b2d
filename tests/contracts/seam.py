"""Count what crosses the seam between the core and the wings: `python -m tests.contracts.seam`.

Counted are the names of the core that a wing imports, wherever from; names of `commitlog`,
`commitlog.errors`, `commitlog.options`, `commitlog.stats` and the toolbox `commitlog.base` are
free. The lists of the core and of the wings are in pyproject.toml, where the import contracts have
them, too.
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "commitlog"
EXTENSION = "extension"  # the module through which wings see the core
REACH_IN = re.compile(r"\bparts_of\b|\bLogParts\b|\bOpenLog\b|\._parts\b")
OWN_PARTS = re.compile(r"\bself\._parts\b[^=\n]*=(?! *parts_of)|\bdef _parts\b")  # of another thing
KIND = re.compile(
    r"\.kind\s*[!=]=|\.kind in |\.detached\b|isinstance\([^)]*(?:Directory|Segment)\)"
)


@dataclass(frozen=True)
class Seam:
    """Which packages and modules are the core, which ones are wings, and what is free."""

    core: frozenset[str]
    free: frozenset[str]
    wings: dict[str, str]  # the wing of each package or module

    @classmethod
    def read(cls) -> Seam:
        content = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["commitlog"]["seam"]
        wings = {name: wing for wing, names in content["wings"].items() for name in names}
        return cls(frozenset(content["core"]), frozenset(content["free"]), wings)

    def side(self, module: tuple[str, ...]) -> str:
        """Return the wing of a module, "core", "free", or "public" for `commitlog` itself."""
        if not module:
            return "public"
        name = module[0] if module[:1] != ("_kernel",) else ".".join(module[:2])
        if name in self.wings:
            return self.wings[name]
        return "free" if module[0] in self.free else "core" if module[0] in self.core else "public"


@dataclass
class Crossing:
    """What crosses the seam."""

    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    inward: list[str] = field(default_factory=list)  # a module of the core imports a wing
    direct: list[str] = field(default_factory=list)  # a wing imports the core beside the extension
    reach_ins: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    @property
    def internals(self) -> set[str]:
        return set(self.names)


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield each name of the package that a file imports, with its module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "commitlog":
            module = tuple((node.module or "").split("."))[1:]
            yield from ((*module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("commitlog."):
                    yield tuple(alias.name.split("."))[1:]


def exports(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each name that a file imports, as the file calls it, with its origin."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            module = tuple((node.module or "").split("."))[1:]
            yield from ((each.asname or each.name, (*module, each.name)) for each in node.names)


def origin(name: tuple[str, ...], extension: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the name that an export of the extension module stands for."""
    if name[:1] == (EXTENSION,) and len(name) == 2:
        return extension.get(name[1], name)
    return name


@functools.cache
def count() -> Crossing:
    seam, found = Seam.read(), Crossing()
    extension = dict(exports(PACKAGE / f"{EXTENSION}.py"))
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").parts
        own = seam.side(module)
        text = path.read_text()
        where = "/".join(module)
        seen = text.replace("self._parts", "") if OWN_PARTS.search(text) else text
        for number, line in enumerate(seen.splitlines(), 1):
            if own not in ("core", "free", "public") and REACH_IN.search(line):
                found.reach_ins.append(f"{where}:{number}: {line.strip()}")
        for number, line in enumerate(text.splitlines(), 1):
            if KIND.search(line) and "directory" in line.lower():
                found.kinds.append(f"{where}:{number}: {line.strip()}")
        for name in imports(path):
            real = origin(name, extension)
            side = seam.side(real)
            if own in ("core", "free") and side not in ("core", "free", "public"):
                found.inward.append(f"{where}: {'.'.join(name)}")
            if own not in ("core", "free", "public") and side == "core":
                found.names[".".join(real)].add(own)
                if name == real:
                    found.direct.append(f"{where}: {'.'.join(name)}")
    return found


def main() -> None:
    found = count()
    by_wings = defaultdict(list)
    for name, wings in found.names.items():
        by_wings[", ".join(sorted(wings))].append(name)
    for wings, names in sorted(by_wings.items()):
        print(f"{wings}: {len(names)}")
        print("   ", *sorted(names))
    for title, lines in (
        ("the core imports wings", found.inward),
        ("wings import the core beside extension.py", found.direct),
        ("reach-ins into an open log's parts", found.reach_ins),
        ("tests of a directory's kind", found.kinds),
    ):
        print(f"{title}: {len(lines)}", *lines, sep="\n    ")
    print(
        f"{len(found.internals)} names of the core are imported by wings; "
        f"{len(found.reach_ins)} reach-ins; {len(found.kinds)} tests of a kind; "
        f"{len(found.inward)} imports of wings by the core"
    )


if __name__ == "__main__":
    main()
