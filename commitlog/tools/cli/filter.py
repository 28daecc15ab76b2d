"""Regular expressions over the values of records."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from commitlog import Batch

Pattern = re.Pattern[bytes]
Rows = npt.NDArray[np.int64]

# A character class; a character beyond ASCII with its backslash; or any other character, escaped or
# not.
_TOKEN = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]?|\\?[^\x00-\x7f]|\\.|.", re.DOTALL)


def compiled(text: str) -> Pattern:
    """Compile an expression of `re` over bytes; other text is a `ValueError`. A character beyond
    ASCII matches its UTF-8 bytes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of syntax whose meaning may change in later Pythons
        try:
            return re.compile(_TOKEN.sub(_grouped, text).encode("utf-8", "surrogateescape"))
        except RecursionError:
            raise ValueError("nested too deeply") from None
        except (re.error, OverflowError) as error:
            raise ValueError(str(error)) from None


def _grouped(token: re.Match[str]) -> str:
    """Group the bytes of one character, so that ``é+`` repeats all of them."""
    text = token[0]
    wide = next(
        (
            character
            for character in text
            if character > "\x7f" and not "\udc80" <= character <= "\udcff"
        ),
        None,
    )
    if wide is None:
        return text
    if text.startswith("["):
        raise ValueError(
            f"{wide!r} is several bytes and cannot be in [...]: write (?:a|{wide}) instead"
        )
    return f"(?:{wide})"


class Filter:
    """Accept a value if every pattern of `include` matches in it and no pattern of `exclude` does.
    ``^`` and ``$`` match the start and the end of a value. Records of `skipped_type` are left out,
    and those that `chosen` does not return.
    """

    def __init__(
        self,
        include: Sequence[Pattern] = (),
        exclude: Sequence[Pattern] = (),
        skipped_type: int | None = None,
        chosen: Callable[[Batch, list[int]], list[int]] | None = None,
    ) -> None:
        self._chosen = chosen
        self._skipped_type = skipped_type
        self._include = [pattern.search for pattern in include]
        self._exclude = [pattern.search for pattern in exclude]

    def __bool__(self) -> bool:
        return bool(
            self._include
            or self._exclude
            or self._skipped_type is not None
            or self._chosen is not None
        )

    def rows(self, batch: Batch) -> Rows:
        if not self:
            return np.arange(len(batch))
        rows = list(range(len(batch)))
        if self._skipped_type is not None:
            rows = np.flatnonzero(batch.types != self._skipped_type).tolist()
        values = batch.values() if self._include or self._exclude else []
        for search in self._include:
            rows = [row for row in rows if search(values[row])]
        for search in self._exclude:
            rows = [row for row in rows if not search(values[row])]
        if self._chosen is not None:
            rows = self._chosen(batch, rows)
        return np.array(rows, dtype=np.int64)
