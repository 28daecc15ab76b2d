"""SideStores: the side logs of a stored log, each in a store of its own inside of the log's store.

`<epoch>-<time>-<id>.side` is an object of the log's store, as JSON: the folder of a side log, and
its uuid. The objects of that side log are in the folder `<epoch>-<time>-<id>`. A promoted log, and
a side log that was made anew, begin another one, and delete the earlier ones once it is stored.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol

from commitlog import CommitLog
from commitlog import open as open_log
from commitlog.base.host import host
from commitlog.base.polling import attempts
from commitlog.base.side_logs import is_side_log, side_logs
from commitlog.errors import CommitLogError, FencedError, InvalidOptionError
from commitlog.extension import LogView, view_of
from commitlog.options import StoreWork
from commitlog.stores.object_target import is_object_store
from commitlog.stores.store_options import StoreOptions
from commitlog.stores.target import Target, reading, target_of

_logger = logging.getLogger("commitlog.store")
_NAME = re.compile(r"^([0-9]{10}-[0-9]{20}-[0-9a-f]{16})\.side$")
_SIZE_LIMIT = 4096
_JOIN_S, _FLUSH_S = 10.0, 1.0
_RETRY_S = 10.0  # until a side log is tried again that cannot be stored


@dataclass(frozen=True)
class StoredSide:
    """A side log in a store: the name of its folder there, its folder in the log, and its uuid."""

    name: str
    folder: str
    uuid: str

    @property
    def epoch(self) -> int:
        return int(self.name[:10])


def stored_sides(target: Target) -> dict[str, list[StoredSide]]:
    """Return the side logs of a store by their folders, the newest first."""
    found: dict[str, list[StoredSide]] = {}
    with reading(target.name):
        names = sorted((each for each in target.names() if _NAME.match(each)), reverse=True)
    for each in names:
        side = _read(target, each)
        if side is not None:
            found.setdefault(side.folder, []).append(side)
    return found


def _read(target: Target, name: str) -> StoredSide | None:
    path = target.path_of(name)
    try:
        with reading(path), target.open(name) as file:
            content = json.loads(file.read(_SIZE_LIMIT))
        folder, uuid = content["folder"], content["uuid"]
    except FileNotFoundError:
        return None  # deleted meanwhile
    except (ValueError, KeyError, TypeError):
        folder = uuid = None
    if not is_side_log(folder):
        _logger.warning("%s is damaged: the queue that it names is not restored", path)
        return None
    return StoredSide(name.removesuffix(".side"), str(folder), str(uuid))


def place_of_side(place: str, side: StoredSide) -> str:
    """Return the store of a side log inside of the store at a place."""
    return f"{place.rstrip('/')}/{side.name}"


class _Work(StoreWork, Protocol):
    error: CommitLogError | None


class SideStores:
    """Store the side logs of a log that this handle stores.

    Parameters
    ----------
    begin : callable
        Makes the service that stores a log.
    """

    def __init__(
        self,
        path: str,
        store: StoreOptions,
        epoch: int,
        begin: Callable[[LogView, StoreOptions], _Work],
    ) -> None:
        self._path = path
        self._store = store
        self._epoch = epoch
        self._begin_storing = begin
        self._working: dict[str, tuple[CommitLog, _Work, StoredSide]] = {}
        self._stored: dict[str, list[StoredSide]] | None = None
        self._seen: set[str] = set()  # in the log's directory
        self._failed_s: dict[str, float] = {}
        self._fenced: set[str] = set()

    def round(self, target: Target) -> None:
        """Begin to store new side logs, and give up what is not needed any more."""
        found = side_logs(self._path)
        if self._stored is None and not found:
            return
        if is_object_store(self._store.filesystem):  # it has its prefix already
            if not self._failed_s:
                why = "a store of obstore has no folders: give its address as the target"
                self._fail("queues", InvalidOptionError(why))
            return
        try:
            if self._stored is None:
                self._stored = stored_sides(target)
            # A directory that never had it is a copy or a backup without it: the store keeps it.
            self._seen.update(found)
            for folder in [each for each in self._stored if each in self._seen - set(found)]:
                self._end(folder)
                self._retire(target, self._stored.pop(folder))
            for folder in found:
                self._look_after(target, folder)
        except CommitLogError as error:
            _logger.info("%s: its queues cannot be stored now: %s", self._path, error)

    def _look_after(self, target: Target, folder: str) -> None:
        assert self._stored is not None
        known = self._working.get(folder)
        if known is not None:
            log, work, side = known
            if view_of(log).is_at(os.path.join(self._path, folder)) and work.error is None:
                if work.stored() is not None:
                    self._retire(target, [each for each in self._stored[folder] if each != side])
                    self._stored[folder] = [side]
                return
            self._end(folder)
            if work.error is not None:
                self._fail(folder, work.error)
                if isinstance(work.error, FencedError):  # another directory has stored there
                    self._fenced.add(side.name)
        if host.monotonic() >= self._failed_s.get(folder, 0.0):
            self._begin(target, folder)

    def _begin(self, target: Target, folder: str) -> None:
        assert self._stored is not None
        try:
            log = open_log(os.path.join(self._path, folder), "r")
        except CommitLogError as error:
            self._fail(folder, error)
            return
        try:
            uuid = view_of(log).identity.uuid.hex()
            sides = self._stored.setdefault(folder, [])
            side = next((each for each in sides if self._goes_on(each, uuid)), None)
            if side is None:
                side = self._put(target, folder, uuid)
                sides.insert(0, side)
            place = place_of_side(target.name, side)
            options = replace(self._store, target=place, max_age=None, max_bytes=None)
            work = self._begin_storing(view_of(log), options)
            work.start()
        except CommitLogError as error:
            log.close()
            self._fail(folder, error)
            return
        self._working[folder] = log, work, side

    def _goes_on(self, side: StoredSide, uuid: str) -> bool:
        is_same = (side.epoch, side.uuid) == (self._epoch, uuid)
        return is_same and side.name not in self._fenced

    def _fail(self, folder: str, error: CommitLogError) -> None:
        level = logging.INFO if folder in self._failed_s else logging.WARNING
        _logger.log(level, "%s/%s is not stored now: %s", self._path, folder, error)
        self._failed_s[folder] = host.monotonic() + _RETRY_S

    def _put(self, target: Target, folder: str, uuid: str) -> StoredSide:
        name = f"{self._epoch:010d}-{host.time_ns():020d}-{host.random(8).hex()}"
        text = json.dumps({"folder": folder, "uuid": uuid}).encode()

        def write(file: BinaryIO) -> None:
            file.write(text)

        target.put(f"{name}.side", write)
        return StoredSide(name, folder, uuid)

    def _retire(self, target: Target, sides: list[StoredSide]) -> None:
        """Delete what an earlier side log has stored."""
        for side in sides:
            target.delete([f"{side.name}.side"])
            inside = target_of(place_of_side(target.name, side), self._store.filesystem)
            with reading(inside.name):
                inside.delete(inside.names())

    def _end(self, folder: str) -> None:
        known = self._working.pop(folder, None)
        if known is not None:
            log, work, _ = known
            view = view_of(log)  # its writers may go on, so they are asked to flush
            for _ in attempts(_FLUSH_S, f"the writers of {log.path}"):
                if view.flushed_position >= view.committed_position:
                    break
                view.ask_for_flush()
            work.join(_JOIN_S)
            log.close()

    def close(self) -> None:
        """Store what is durable, and end."""
        for folder in list(self._working):
            self._end(folder)
