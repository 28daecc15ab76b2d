"""Copies of the code in which mutants are applied and tested; the checkout stays as it is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import setup
from tests._kernel import compiling
from tests._kernel.test_kernel_c import special
from tests.mutants.mutant import KERNEL_C, ROOT, CTests, Leg, Mutant, PythonTests

COPIED = ("commitlog", "tests", "examples", "bench", "demo", "docs", "wheels", "setup.py",
          "pyproject.toml", "constraints.txt", "README.md", "CHANGELOG.md", "LICENSE", "Makefile",
          "MANIFEST.in", "build/asserts")  # fmt: skip
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc")
TEST_LIMIT_S = 120
LEG_LIMIT_S = 400
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
FAULT = re.compile(
    r"^.*(?:ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error|assert|CHECK).*$",
    re.MULTILINE,
)


class NotBuiltError(Exception):
    """A mutant does not compile, or what the legs need is missing."""


@dataclass(frozen=True)
class Outcome:
    """How a leg ended: whether it failed, and by what."""

    failed: bool
    by: str = ""


def run(
    command: list[str | Path], cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["nice", "-n", "10", *command], cwd=cwd, capture_output=True, text=True, check=False,
        timeout=LEG_LIMIT_S, env={**os.environ, **environment}, errors="replace",
    )  # fmt: skip


def compiled(command: list[str | Path], cwd: Path) -> None:
    done = run(command, cwd)
    if done.returncode:
        raise NotBuiltError(f"{shlex.join(map(str, command))}:\n{done.stdout}{done.stderr}")


class CKernel:
    """The kernel's C files, and their objects for one sanitizer."""

    def __init__(self, folder: Path, sanitizer: str) -> None:
        self._folder = folder
        self._sources = folder / "c"
        self._objects = folder / "objects"
        self._objects.mkdir(parents=True)
        shutil.copytree(ROOT / KERNEL_C, self._sources)
        variant = compiling.thread() if sanitizer == "thread" else compiling.ADDRESS
        # A mutant may leave a name unused.
        flags = [flag for flag in (*compiling.FLAGS, *variant.flags) if flag != "-Werror"]
        self._flags = [*flags, "-iquote", str(self._sources), "-iquote", str(compiling.HERE)]
        self._prefix = list(variant.launcher)
        self._compile(sorted(self._sources.glob("*.c")))

    def _compile(self, sources: list[Path]) -> None:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(self._compile_one, sources))

    def _compile_one(self, source: Path) -> None:
        target = self._objects / f"{source.stem}.o"
        compiled(["gcc", *self._flags, "-c", source, "-o", target], self._folder)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Apply a mutant for the length of a `with`."""
        path = self._sources / mutant.file.removeprefix(KERNEL_C)
        text = path.read_text(encoding="utf-8")
        stale = [path] if path.suffix == ".c" else sorted(self._sources.glob("*.c"))
        kept = self._folder / "kept"
        shutil.copytree(self._objects, kept)
        try:
            path.write_text(mutant.applied(text), encoding="utf-8")
            self._compile(stale)
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            shutil.rmtree(self._objects)
            kept.rename(self._objects)

    def test(self, leg: CTests) -> Outcome:
        for name in leg.names:
            outcome = self._test_one(name)
            if outcome.failed:
                return outcome
        return Outcome(failed=False)

    def _test_one(self, name: str) -> Outcome:
        test = compiling.HERE / f"{name}.c"
        subject, names = special(test)
        chosen = (
            [self._objects / each.replace(".c", ".o") for each in names.split()]
            if subject == "sources"
            else sorted(self._objects.glob("*.o"))
        )
        folder = self._folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        program = folder / name
        compiled(["gcc", *self._flags, test, *chosen, "-o", program], folder)
        try:
            done = run([*self._prefix, program], folder)
        except subprocess.TimeoutExpired:
            return Outcome(failed=True, by=f"{name}: it does not end")
        fault = FAULT.search(done.stdout + done.stderr)
        said = fault[0].strip() if fault else (done.stderr.strip().splitlines() or ["?"])[-1]
        return Outcome(done.returncode != 0, f"{name}: {said[:200]}" if done.returncode else "")


class Tree:
    """A copy of the repository in which pytest runs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        for name in COPIED:
            source, target = ROOT / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=LEFT_OUT, symlinks=True)
            elif source.exists():
                shutil.copy2(source, target)
        self._temporary = next((folder / "build/asserts").glob("temp.*"), None)
        if self._temporary is None:
            raise NotBuiltError("there is no kernel with assertions: run `make asserts` first")

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Apply a mutant for the length of a `with`; what it has compiled goes with it."""
        path = self.path / mutant.file
        text = path.read_text(encoding="utf-8")
        modules = {module: module.read_bytes() for module in self._modules()}
        try:
            path.write_text(mutant.applied(text), encoding="utf-8")
            self._forget(path)
            if path.suffix == ".c":
                self._link(path)
            elif mutant.needs_build:
                self._build()
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            self._forget(path)
            if path.suffix != ".py":
                for module, content in modules.items():
                    module.write_bytes(content)

    def _modules(self) -> list[Path]:
        return sorted((self.path / "commitlog").rglob("*.so"))

    def _forget(self, path: Path) -> None:
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            cached.unlink()

    def _link(self, source: Path) -> None:
        """Link every module with the object of one changed C file."""
        assert self._temporary is not None
        flags = [*setup.KERNEL_FLAGS, "-g0", "-DCL_ASSERT"]
        changed = self.path / "build" / "changed"
        shutil.rmtree(changed, ignore_errors=True)
        changed.mkdir()
        archive = shutil.copy2(self._temporary / "libclkernel.a", changed / "libclkernel.a")
        target = changed / f"{source.stem}.o"
        compiled(["gcc", *flags, "-c", source, "-o", target], self.path)
        compiled(["ar", "r", archive, target], self.path)
        for module in self._modules():
            name = module.relative_to(self.path).with_name(module.name.partition(".")[0] + ".o")
            made = self._temporary / "build/cython" / name
            module.unlink()  # a running process may have it mapped
            compiled(["gcc", "-shared", "-pthread", made, archive, "-o", module], self.path)

    def _build(self) -> None:
        done = run(
            [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
            self.path,
            COMMITLOG_ASSERT="1",
        )
        if done.returncode:
            raise NotBuiltError(done.stdout + done.stderr)

    def test(self, leg: PythonTests) -> Outcome:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
                   f"--timeout={TEST_LIMIT_S}", *leg.nodes]  # fmt: skip
        try:
            done = run(command, self.path, PYTHONPATH=str(self.path), COMMITLOG_SEED="36")
        except subprocess.TimeoutExpired:
            return Outcome(failed=True, by="it does not end")
        if done.returncode not in (0, 1) and not FAILED.search(done.stdout):
            if done.returncode > 1 and "no tests ran" in done.stdout:
                raise NotBuiltError(
                    f"{leg} runs no test:\n{done.stdout[-2000:]}{done.stderr[-500:]}"
                )
            said = (done.stderr or done.stdout).strip().splitlines()
            return Outcome(failed=True, by=f"pytest ended with {done.returncode}: {said[-1:]}")
        failed = FAILED.search(done.stdout)
        return Outcome(done.returncode != 0, failed[1] if failed else done.stdout[-200:].strip())


class Workshop:
    """Runs legs on the code as it is, and on mutants."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kernels: dict[str, CKernel] = {}
        self._tree: Tree | None = None

    def sound(self, leg: Leg, failed: str) -> Outcome:
        """Run what failed on a mutant on the code as it is."""
        if isinstance(leg, CTests):
            return self._kernel(leg).test(leg)
        return self.tree().test(PythonTests((failed,)) if "::" in failed else leg)

    def mutated(self, mutant: Mutant) -> Outcome:
        """Run the leg of a mutant on it."""
        leg = mutant.leg
        if isinstance(leg, CTests):
            kernel = self._kernel(leg)
            with kernel.changed(mutant):
                return kernel.test(leg)
        if mutant.needs_build:  # a build leaves objects behind that no later mutant may meet
            own = Tree(self._folder / "built")
            try:
                with own.changed(mutant):
                    return own.test(leg)
            finally:
                shutil.rmtree(own.path)
        tree = self.tree()
        with tree.changed(mutant):
            return tree.test(leg)

    def _kernel(self, leg: CTests) -> CKernel:
        if leg.sanitizer not in self._kernels:
            self._kernels[leg.sanitizer] = CKernel(self._folder / leg.sanitizer, leg.sanitizer)
        return self._kernels[leg.sanitizer]

    def tree(self) -> Tree:
        if self._tree is None:
            self._tree = Tree(self._folder / "tree")
        return self._tree
