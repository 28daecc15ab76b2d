"""Many records as NumPy columns."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from commitlog._kernel.readers import first_sequence
from commitlog._kernel.segments import Segment
from commitlog.base.extras import pyarrow_for
from commitlog.errors import CommitLogError, SequenceError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Batch:
    """Columns of equal length, one row a record, in the order in which they were read.

    Attributes
    ----------
    positions, timestamps_ns : numpy.ndarray of int64, shape (n,)
    types : numpy.ndarray of uint32, shape (n,)
    keyed : numpy.ndarray of bool, shape (n,)
        False where a record has no key; an empty key is one.
    data : numpy.ndarray of uint8
        All values, one after the other.
    offsets : numpy.ndarray of int64, shape (n + 1,)
        Value i is ``data[offsets[i]:offsets[i + 1]]``.
    keys, key_offsets : numpy.ndarray
        The same for keys.
    """

    positions: npt.NDArray[np.int64]
    timestamps_ns: npt.NDArray[np.int64]
    types: npt.NDArray[np.uint32]
    keyed: npt.NDArray[np.bool_]
    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    keys: npt.NDArray[np.uint8]
    key_offsets: npt.NDArray[np.int64]
    _segment: Segment | None = field(default=None, repr=False)

    @cached_property
    def sequences(self) -> npt.NDArray[np.int64]:
        """The records' sequences, int64, shape (n,); they rise or fall by one. Counted when they
        are asked for.

        Raises
        ------
        SequenceError
            A claim below is still open, so that nobody can say yet.
        """
        if not len(self):
            return np.empty(0, dtype=np.int64)
        if self._segment is None:
            raise SequenceError(
                "the sequences of these records were not known when they were pickled"
            )
        first = first_sequence(self._segment, self.positions)
        step = -1 if len(self) > 1 and self.positions[1] < self.positions[0] else 1
        return np.arange(first, first + step * len(self), step, dtype=np.int64)

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_segment": None}
        with contextlib.suppress(CommitLogError):
            state["sequences"] = self.sequences
        return state

    def __len__(self) -> int:
        return len(self.positions)

    def value(self, index: int) -> bytes:
        """One value, copied."""
        return self._slice(self.data, self.offsets, index)

    def key(self, index: int) -> bytes | None:
        """One key, copied; None where the record has none."""
        return self._slice(self.keys, self.key_offsets, index) if self.keyed[index] else None

    def _slice(
        self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], index: int
    ) -> bytes:
        row = range(len(self))[index]
        return data[offsets[row] : offsets[row + 1]].tobytes()

    def values(self) -> list[bytes]:
        """All values as a list of bytes."""
        blob = self.data.tobytes()
        edges = self.offsets.tolist()
        return [blob[start:stop] for start, stop in itertools.pairwise(edges)]

    def to_arrow(self) -> pa.RecordBatch:
        """The batch as Arrow columns position, timestamp_ns, type, key, value, sharing the values'
        memory.

        Raises
        ------
        ModuleNotFoundError
            pyarrow is not there: ``pip install 'commitlog-engine[arrow]'``.
        """
        pa = pyarrow_for("Batch.to_arrow")

        def binary(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], valid: Any) -> Any:
            buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
            return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)

        key_mask = pa.py_buffer(np.packbits(self.keyed, bitorder="little"))
        columns = {
            "position": pa.array(self.positions),
            "timestamp_ns": pa.array(self.timestamps_ns),
            "type": pa.array(self.types),
            "key": binary(self.key_offsets, self.keys, key_mask),
            "value": binary(self.offsets, self.data, None),
        }
        return pa.record_batch(columns)
