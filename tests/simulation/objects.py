"""Objects: a store that lists late, refuses, or does something and says nothing."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

from commitlog.stores.target import LocalTarget
from tests.simulation.world import World, patched

FAULTS = ("late lists", "errors", "lost answers", "slow")


class Objects:
    """The faults of the store, which all machines use."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.faults: set[str] = set()
        self._listed: dict[str, int] = {}
        self._listed_s = 0.0

    def _ask(self, *, changes: bool = False) -> None:
        world = self.world
        slow = "slow" in self.faults
        world.sleep(world.choices.between(1e-3, 3.0 if slow else 2e-2))
        if "errors" in self.faults and world.choices.happens(4):
            raise OSError(errno.EIO, "500: the store failed")

    def _answer(self) -> None:
        if "lost answers" in self.faults and self.world.choices.happens(4):
            raise OSError(errno.EIO, "the answer of the store was lost")

    @contextlib.contextmanager
    def used(self, *, syncs: bool) -> Iterator[None]:
        """Have directories behave as this store; without `syncs`, no file is synced."""
        real = {name: getattr(LocalTarget, name) for name in ("sizes", "names", "put", "delete")}
        read = LocalTarget.open

        def sizes(target: Any) -> dict[str, int]:
            self._ask()
            now: dict[str, int] = real["sizes"](target)
            late = "late lists" in self.faults and self.world.now_s - self._listed_s < 4.0
            if not late:
                self._listed, self._listed_s = now, self.world.now_s
            return dict(self._listed) if late else now

        def put(target: Any, name: str, write: Any, *, replace: bool = True) -> bool:
            self._ask()
            done: bool = real["put"](target, name, write, replace=replace)
            self._answer()
            return done

        def delete(target: Any, names: list[str]) -> None:
            self._ask()
            real["delete"](target, names)
            self._answer()

        def opened(target: Any, name: str, most: int | None = None) -> Any:
            self._ask()
            return read(target, name, most)

        unsynced = {} if syncs else {"fsync": lambda fd: None, "fdatasync": lambda fd: None}
        with (
            patched(LocalTarget, sizes=sizes, put=put, delete=delete, open=opened),
            patched(os, **unsynced),
        ):
            yield
