"""The file `sessions`: which sessions of stores a log's directory began.

If the newest session of a store is not one of these, the directory is a copy of the log, or it was
restored from a backup, or another machine went on. An id is written before its session is claimed,
so a kill in between is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass

from commitlog.errors import CorruptSegmentError
from commitlog.extension import Notes
from commitlog.stores.store_session import StoreSession

NAME = "sessions"
_STORES_MOST = 64
_PENDING_MOST = 7


@dataclass(frozen=True)
class OwnSessions:
    """What a directory knows of its sessions.

    Attributes
    ----------
    stores : tuple of (name, last id, pending id, ...)
        For each store, the last session that this directory is known to have, and those that it
        has tried to claim since: a request may arrive late.
    restored : str
        The newest session of the store when the directory was restored from it.
    """

    stores: tuple[tuple[str, ...], ...] = ()
    restored: str = ""

    def has(self, session_id: str) -> bool:
        """Return whether this directory began a session."""
        return session_id != "" and any(session_id in each[1:] for each in self.stores)

    def claiming(self, store: str, newest: StoreSession, claimed_id: str) -> OwnSessions:
        """Return what to write before a claim behind the newest session of a store."""
        others = tuple(each for each in self.stores if each[0] != store)
        last, *pending = next((each[1:] for each in self.stores if each[0] == store), ("",))
        if self.has(newest.id):
            last = newest.id
            pending = pending[pending.index(last) + 1 :] if last in pending else pending
        entry = store, last, *pending[-_PENDING_MOST:], claimed_id
        return OwnSessions((*others, entry)[-_STORES_MOST:], self.restored)


def read(notes: Notes) -> OwnSessions:
    """Read the file; a damaged one is a `CorruptSegmentError`."""
    try:
        content = notes.read(NAME)
    except CorruptSegmentError:
        content = {}
    if content is None:
        return OwnSessions()
    stores, restored = content.get("stores"), content.get("restored")
    if isinstance(stores, list) and isinstance(restored, str) and all(map(_is_entry, stores)):
        return OwnSessions(tuple(map(tuple, stores)), restored)
    raise CorruptSegmentError(
        f"`{NAME}` is damaged: remove it, then run `commitlog promote --store` on the log",
        path=notes.path_of(NAME),
    )


def _is_entry(found: object) -> bool:
    return isinstance(found, list) and len(found) > 2 and {type(each) for each in found} == {str}


def write(notes: Notes, own: OwnSessions) -> None:
    """Replace the file durably."""
    stores = [list(each) for each in own.stores]
    notes.write(NAME, {"stores": stores, "restored": own.restored})
