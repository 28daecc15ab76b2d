"""A log as a Polars LazyFrame: `scan`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Literal

import commitlog
from commitlog.base.option import check_switches
from commitlog.base.path import path_of
from commitlog.errors import PositionError
from commitlog.extension import view_of

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError as error:
    raise ModuleNotFoundError(
        "commitlog.polars needs polars: pip install 'commitlog-engine[polars]'", name="polars"
    ) from error

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["scan"]

_TIME = pl.Datetime("ns", "UTC")
# For a query without columns, such as `select(pl.len())`, Polars reads the first column of a scan.
# This column costs nothing, and no query can name it.
_NOTHING = ""
_SCHEMA = {
    _NOTHING: pl.Null(),
    "position": pl.Int64(),
    "sequence": pl.Int64(),
    "timestamp": _TIME,
    "type": pl.UInt32(),
    "key": pl.Binary(),
    "value": pl.Binary(),
}
# Not every release of Polars has maps.
_HEADERS = {"headers": pl.List(pl.Struct({"key": pl.String(), "value": pl.Binary()}))}
_LARGEST = (1 << 63) - 1
_CLOSED: tuple[Literal["both", "left", "right", "none"], ...] = ("both", "left", "right", "none")


def scan(path: str | os.PathLike[str], *, headers: bool = False) -> pl.LazyFrame:
    """Read a log, an archive or a single segment lazily.

    A query copies only the columns that it needs. The scan turns conditions on position, sequence
    and timestamp that are joined by ``&`` into a range of the log, found by its index. A timestamp
    bounds only the start, because timestamps may step back between writers. `head` ends the read.

    Each `collect` opens the log, reads up to the commit position of that moment, and raises the
    errors of `commitlog.open`.

    Parameters
    ----------
    path : str or path-like
        The log's directory; an archive's; or a segment's file.
    headers : bool
        Whether to add the column headers, a list of structs of key and value. A query that does not
        use it does not read them.

    Returns
    -------
    polars.LazyFrame
        With the columns position, sequence, timestamp, type, key and value, and headers on request.
    """
    place = os.path.abspath(path_of(path))
    check_switches(headers=headers)
    schema = _SCHEMA | _HEADERS if headers else _SCHEMA

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        return _frames(place, schema if columns is None else columns, predicate, rows)

    whole = register_io_source(
        frames, schema=schema, is_pure=True, explain_name="COMMITLOG", explain_detail=place
    )
    return whole.drop(_NOTHING)


def _frames(
    path: str, columns: Iterable[str], predicate: pl.Expr | None, rows: int | None
) -> Iterator[pl.DataFrame]:
    # `rows` counts rows before the predicate, so both together leave the start where it is.
    wanted = _range_of(predicate) if predicate is not None and rows is None else _Range()
    left = _LARGEST if rows is None else rows
    with commitlog.open(path, "r") as log:
        columns = [*columns]
        if columns == [_NOTHING] and predicate is None:
            yield _nothing(min(left, log.count())).to_frame()
            return
        bounds = wanted.positions(log)
        if bounds is None:
            return
        names = [name for name in columns if name != _NOTHING] or ["position"]
        for batch in view_of(log).scan(*bounds, names, "commitlog.polars").record_batches(left):
            frame = pl.DataFrame(_listed(batch) if "headers" in names else batch)
            if _NOTHING in columns:
                frame.insert_column(0, _nothing(frame.height))
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame.select(_NOTHING) if columns == [_NOTHING] else frame


def _listed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turn the map of headers into a list of structs."""
    import pyarrow as pa

    index = batch.schema.get_field_index("headers")
    column = batch.column(index)
    entries = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    return batch.set_column(index, "headers", pa.ListArray.from_arrays(column.offsets, entries))


def _nothing(rows: int) -> pl.Series:
    return pl.Series(_NOTHING, [None], dtype=pl.Null).new_from_index(0, rows)


# --- the range that a predicate leaves ---------------------------------------------------------


@dataclass(frozen=True)
class _Range:
    """Inclusive bounds. An upper bound on the timestamp does not end a scan."""

    position: tuple[int, int] = (0, _LARGEST)
    sequence: tuple[int, int] = (0, _LARGEST)
    timestamp: tuple[int, int] = (0, _LARGEST)

    def both(self, other: _Range) -> _Range:
        """Return the intersection with another range."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return _Range(*((max(one[0], two[0]), min(one[1], two[1])) for one, two in pairs))

    def positions(self, log: commitlog.CommitLog) -> tuple[int | None, int] | None:
        """Return the start and end position in a log; None if the log has nothing in the range."""
        view = view_of(log)
        (low, high), (first, last) = self.position, self.sequence
        starts = [log.first_position]
        if low > log.first_position:
            if low >= log.committed_position:
                return None
            starts.append(view.entry_before(low + 1) or 0)
        if self.timestamp[0] > 0:
            since = view.position_since(self.timestamp[0])
            if since is None:
                return None
            starts.append(since)
        if first > log.first_sequence:
            try:
                starts.append(view.position_of(first))
            except PositionError:
                return None
        if last < _LARGEST:
            with contextlib.suppress(PositionError):  # the log does not reach so far
                high = min(high, view.position_of(last + 1) - 1)
        start, end = max(starts), high + 1
        return None if end <= start else (start if len(starts) > 1 else None, end)


def _range_of(predicate: pl.Expr) -> _Range:
    """Derive bounds from a predicate; an expression of another form adds no bound."""
    parts = predicate.meta.pop()
    if len(parts) == 2:
        right, left = parts
        if predicate.meta.eq(left & right):
            return _range_of(left).both(_range_of(right))
        for column, constant in ((left, right), (right, left)):
            if (name := _name_of(column)) and (value := _constant(name, constant)) is not None:
                return _compared(predicate, name, column, constant, value)
    if len(parts) == 3 and (name := _name_of(parts[2])):
        low, high = _constant(name, parts[1]), _constant(name, parts[0])
        if (
            low is not None
            and high is not None
            and any(
                predicate.meta.eq(parts[2].is_between(parts[1], parts[0], closed=closed))
                for closed in _CLOSED
            )
        ):
            return replace(_Range(), **{name: (low, high)})
    return _Range()


def _compared(
    predicate: pl.Expr, name: str, column: pl.Expr, constant: pl.Expr, value: int
) -> _Range:
    bounds = {
        (value, _LARGEST): (
            column >= constant,
            column > constant,
            constant <= column,
            constant < column,
        ),
        (0, value): (column <= constant, column < constant, constant >= column, constant > column),
        (value, value): (column == constant, constant == column),
    }
    for bound, forms in bounds.items():
        if any(predicate.meta.eq(form) for form in forms):
            return replace(_Range(), **{name: bound})
    return _Range()


def _name_of(column: pl.Expr) -> str | None:
    """Return the name of a column with bounds, also inside a cast to coarser timestamps."""
    for name in ("position", "sequence", "timestamp"):
        if column.meta.eq(pl.col(name)):
            return name
    for unit in ("us", "ms"):
        coarser = pl.col("timestamp").cast(
            pl.Datetime(unit, "UTC"), strict=False
        )  # as Polars adds it
        if column.meta.eq(coarser):
            return "timestamp"
    return None


def _constant(name: str, constant: pl.Expr) -> int | None:
    """Return a constant expression as an integer, or None if it is not one."""
    if constant.meta.root_names():
        return None
    kind = _SCHEMA[name]
    try:
        found = pl.select(constant.alias("value")).to_series()
        if len(found) != 1 or found.dtype.is_temporal() != kind.is_temporal():
            return None
        if isinstance(found.dtype, pl.Datetime) and found.dtype.time_zone != "UTC":
            return None
        number = found.cast(kind).cast(pl.Int64).item()
    except pl.exceptions.PolarsError:
        return None
    return number if number is None else int(number)
