"""A regular expression over the values of records."""

from __future__ import annotations

import ctypes
import re
import warnings

import numpy as np
import numpy.typing as npt

from commitlog.cli.literals import Needles, needles
from commitlog.tail.batch import Batch

Rows = npt.NDArray[np.int64]

_find = ctypes.CDLL(None).memmem
_find.restype = ctypes.c_void_p
_find.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
# With more places than this for each record, to look at the records one by one is faster than to look at the places.
_DENSE = 0.25
_DENSE_FROM = 64


class Pattern:
    """What Python's `re` finds in a value, each value for itself: ``^`` and ``$`` are its start and its end.

    Where some bytes have to be there for a match, they are looked for first, in all values of a batch at once; what has them is searched.

    Parameters
    ----------
    text : str
        The expression, over bytes: a character beyond ASCII stands for its bytes in UTF-8.

    Raises
    ------
    ValueError
        It is none; the message says why.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about what later versions of Python may read otherwise
            try:
                self._compiled = re.compile(_in_bytes(text))
            except RecursionError:
                raise ValueError("it is nested too deeply") from None
            except (re.error, OverflowError) as error:
                raise ValueError(str(error)) from None
        self.search = self._compiled.search
        self._needles = needles(self._compiled)

    def rows(self, batch: Batch) -> Rows:
        """The rows of a batch whose values it finds something in, ascending."""
        if self._needles is not None:
            candidates = _candidates(self._needles, batch)
            if candidates is not None:
                return candidates if self._needles.exact else self._searched(batch, candidates)
        search = self.search
        return np.array([row for row, value in enumerate(batch.values()) if search(value)], dtype=np.int64)

    def _searched(self, batch: Batch, candidates: Rows) -> Rows:
        search = self.search
        found = [search(value) is not None for value in values_of(batch, candidates)]
        kept: Rows = candidates[np.array(found, dtype=bool)]
        return kept


def values_of(batch: Batch, rows: Rows) -> list[bytes]:
    """The values of some rows."""
    data = batch.data.data
    return [bytes(data[start:stop]) for start, stop in zip(batch.offsets[rows].tolist(), batch.offsets[rows + 1].tolist(), strict=True)]


def _candidates(sought: Needles, batch: Batch) -> Rows | None:
    """The rows with one of the texts; None where they are too many to be worth it."""
    text = np.frombuffer(batch.data.tobytes().lower(), dtype=np.uint8) if sought.lowered else batch.data
    room = int(len(batch) * _DENSE) + _DENSE_FROM
    found: list[Rows] = []
    for needle in sought.texts:
        places = _places(text, needle, room)
        if places is None:
            return None
        # Values stand one after the other, so that a place may begin in one and end in the next.
        rows = np.searchsorted(batch.offsets, places, side="right") - 1
        found.append(rows[places + len(needle) <= batch.offsets[rows + 1]])
    return np.unique(np.concatenate(found))


def _places(text: npt.NDArray[np.uint8], needle: bytes, most: int) -> Rows | None:
    """Where a text stands, overlapping or not; None if in more than so many places."""
    places: list[int] = []
    start = text.ctypes.data
    at, end = start, start + len(text)
    while (found := _find(at, end - at, needle, len(needle))) is not None:
        if len(places) == most:
            return None
        places.append(found - start)
        at = found + 1
    return np.array(places, dtype=np.int64)


def _in_bytes(text: str) -> bytes:
    """The expression in UTF-8, with what a character's bytes are together in parentheses, so that ``é+`` repeats all of them."""
    pieces: list[bytes] = []
    opened = -1  # where a class began
    escaped = False
    for place, character in enumerate(text):
        piece = character.encode("utf-8", "surrogateescape")
        if len(piece) > 1:
            if opened >= 0:
                raise ValueError(f"{character!r} is several bytes and cannot stand in [...]: write (?:a|{character}) and the like")
            piece = b"(?:" + (b"\\" if escaped else b"") + piece + b")"
            if escaped:
                pieces.pop()
        pieces.append(piece)
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif opened < 0 and character == "[":
            opened = place + text.startswith("[^", place)
        elif character == "]" and place > opened + 1:
            opened = -1
    return b"".join(pieces)
