"""A regular expression over the values of records."""

from __future__ import annotations

import re
import warnings

import numpy as np
import numpy.typing as npt

from commitlog._kernel.needle import rows_with, rows_with_run
from commitlog.cli.literals import Needles, needles
from commitlog.cli.runs import run_of
from commitlog.tail.batch import Batch

Rows = npt.NDArray[np.int64]

# So much of a batch shows what is rare in it; a byte that is rarer than this share is looked for alone.
_SAMPLE_BYTES = 32 << 10
_RARE = 1 / 64


class Pattern:
    """What Python's `re` finds in a value, each value for itself: ``^`` and ``$`` are its start and its end.

    Where some bytes, or a run of bytes of certain kinds, have to be there for a match, they are looked for first, in all values of a batch
    at once; what has them is searched.

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
        # A text of one byte is in most values.
        weak = self._needles is None or all(len(text) == 1 for texts in self._needles.choices for text in texts)
        self._run = run_of(self._compiled) if weak else None

    def rows(self, batch: Batch) -> Rows:
        """The rows of a batch whose values it finds something in, ascending."""
        if self._run is not None:
            candidates = rows_with_run(batch.data, batch.offsets, list(self._run.kinds))
            if self._run.exact:
                return candidates
            values = values_of(batch, candidates)
        elif self._needles is not None:
            candidates = _candidates(self._needles, batch)
            if self._needles.exact:
                return candidates
            values = values_of(batch, candidates)
        else:
            candidates, values = np.arange(len(batch)), batch.values()
        search = self.search
        kept: Rows = candidates[np.array([search(value) is not None for value in values], dtype=bool)]
        return kept


def values_of(batch: Batch, rows: Rows) -> list[bytes]:
    """The values of some rows."""
    data = batch.data.data
    return [bytes(data[start:stop]) for start, stop in zip(batch.offsets[rows].tolist(), batch.offsets[rows + 1].tolist(), strict=True)]


def _candidates(sought: Needles, batch: Batch) -> Rows:
    """The rows with one of the texts that have to be there."""
    text = np.frombuffer(batch.data.tobytes().lower(), dtype=np.uint8) if sought.lowered else batch.data
    sample = text[:_SAMPLE_BYTES].tobytes()
    texts = min(sought.choices, key=lambda texts: sum(map(sample.count, texts)))
    found = [rows_with(text, batch.offsets, needle, _rare_byte(needle, sample)) for needle in texts]
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


def _rare_byte(needle: bytes, sample: bytes) -> int:
    """Which byte of a text is so rare that it is faster to look for it than for all of the text; -1 where none is."""
    counts = [sample.count(byte) for byte in needle]
    least = min(counts)
    return counts.index(least) if least < len(sample) * _RARE else -1


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
