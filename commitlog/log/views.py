"""ViewMethods: tailers of an open log that read only some records, and the search by key."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol, TypedDict, Unpack

from commitlog._kernel.readers import Record, Selection
from commitlog._kernel.segments import HEADER_SIZE
from commitlog.base.units import Size, whole_of
from commitlog.errors import InvalidOptionError, PositionError, RecordTypeError
from commitlog.log.tailers import TailerMethods
from commitlog.tail.seek import Direction, Start, Timestamp, Visibility, timestamp_ns_of
from commitlog.tail.segment_holder import OnDamage
from commitlog.tail.tailer import Tailer
from commitlog.tail.tailer_file import Durable

_TYPES_END = 1 << 32
Key = bytes | bytearray | memoryview


class TailerOptions(TypedDict, total=False):
    """The options of `CommitLog.tailer` that `CommitLog.view` takes, too."""

    start: Start | None
    direction: Direction
    visibility: Visibility
    on_damage: OnDamage
    durable: Durable
    required: bool | None
    max_lag: Size | None


class TopicTypes(Protocol):
    """The type numbers of a topic's messages, of which there may be more later.

    Attributes
    ----------
    noted_type : int
        The type of the records that announce more.
    """

    noted_type: int

    def types(self) -> Collection[int]:
        """Return those that are known."""

    def note(self, record: Record) -> Collection[int] | None:
        """Take a record of `noted_type`; return all types if it announces one, else None."""

    def more(self) -> Collection[int] | None:
        """Look for types that were announced since; return all types if there are, else None."""


# Takes the log, the name of the topic, and whether a key is selected, too.
FindTopic = Callable[[Any, str, bool], TopicTypes]
_find_topic: list[FindTopic] = []


def find_topics_by(find: FindTopic) -> None:
    """Have `CommitLog.view` ask this for topics: the core knows none."""
    _find_topic[:] = [find]


class ViewMethods(TailerMethods):
    """The methods of `CommitLog` for some records only."""

    def view(
        self,
        name: str | None = None,
        *,
        type: int | None = None,
        topic: str | None = None,
        key: bytes | bytearray | memoryview | None = None,
        **options: Unpack[TailerOptions],
    ) -> Tailer:
        """Create a tailer that reads only the records of a type or a topic, or with a key.

        In sealed segments that have posting lists, it touches no other record. A log that is open
        for writing builds missing lists when it reads a sealed segment, or in the background with
        ``posting_lists=True``. The tailer scans all other segments.

        Parameters
        ----------
        name : str, optional
            Save the position under this name, as for `tailer`. Use a name for one selection only.
        type : int, optional
            The type of the records.
        topic : str, optional
            The topic: all its messages, of every version of its schema. The records of
            the schemas are left out.
        key : bytes-like, optional
            The key as the records have it; with `type` or `topic`, both must match.
        **options
            As for `tailer`.

        Returns
        -------
        Tailer
            Its `search` and `striding` are not for a selection.

        Raises
        ------
        InvalidOptionError
            Nothing is selected, or a type as well as a topic; or `key` is given for a topic whose
            record keys are sealed.
        TopicNotFoundError
            The log has no such topic.
        RecordTypeError
            The key is not bytes-like.
        """
        self._parts.check_open()
        return self._selected(self._selection(type, topic, key), name, **options)

    def find(
        self,
        key: bytes | bytearray | memoryview,
        *,
        type: int | None = None,
        topic: str | None = None,
        since: Timestamp | None = None,
        until: Timestamp | None = None,
        last: int | None = 1,
    ) -> list[Record]:
        """Find the last records with a key.

        Parameters
        ----------
        key, type, topic
            As for `view`.
        since, until : int, str or datetime.datetime, optional
            Begin with the first record at or after `since`, and end before the first one at or
            after `until`. The times are those of `Tailer.seek`.
        last : int or None
            How many records to return at most; None: all of them.

        Returns
        -------
        list of Record
            In the log's order: the newest is the last one. Empty if there is none.

        Raises
        ------
        InvalidOptionError, TopicNotFoundError, RecordTypeError
            As for `view`, or another argument is wrong.
        """
        self._parts.check_open()
        most = whole_of(last)
        if last is not None and (most is None or most < 1):
            raise InvalidOptionError(f"last must be an int of at least 1, or None, not {last!r}")
        low = 0 if since is None else self._since(since)
        high = None if until is None else self._since(until)
        selection = self._selection(type, topic, self._key(key))
        if low is None:
            return []
        start: Start = "end" if high is None else high
        with self._selected(selection, None, start=start, direction="backward") as tailer:
            found = itertools.islice(self._backward(tailer, selection, low), most)
            return list(found)[::-1]

    def _backward(self, tailer: Tailer, selection: Selection, low: int) -> Iterator[Record]:
        """Yield the selected records down to a position. Segments whose lists lack them are not
        mapped.
        """
        parts, size = self._parts, self._parts.identity.segment_size
        last = (tailer.position - HEADER_SIZE - 1) // size
        first = max(low // size, parts.queue.first_number)
        for number in range(last, first - 1, -1):
            if parts.index.postings.lacks(number, selection):
                continue
            if number < last and not self._moves_behind(tailer, number):
                return
            selection.floor = number * size
            for record in tailer:
                if record.position < low:
                    return
                yield record

    def _moves_behind(self, tailer: Tailer, number: int) -> bool:
        """Move a tailer to the end of a segment; return False if retention has deleted it."""
        try:
            tailer.seek((number + 1) * self._parts.identity.segment_size)
        except PositionError:
            if number < self._parts.queue.first_number:
                return False
            raise
        return True

    def _since(self, timestamp: Timestamp) -> int | None:
        return self._parts.index.position_since(timestamp_ns_of(timestamp))

    def _selection(self, type: int | None, topic: str | None, key: Key | None) -> Selection:
        """Check what is to be selected."""
        if type is None and topic is None and key is None:
            raise InvalidOptionError(
                "view selects by type, topic or key, and none is given: use tailer to read every "
                "record",
                path=self._parts.path,
            )
        wanted = None if key is None else self._key(key)
        if topic is not None:
            return self._topic_selection(type, topic, wanted)
        if type is None:
            return Selection(None, wanted)
        number = whole_of(type)
        if number is None or not 0 <= number < _TYPES_END:
            raise InvalidOptionError(f"type must be an int from 0 to 2**32 - 1, not {type!r}")
        return Selection([number], wanted)

    def _key(self, key: object) -> bytes:
        if isinstance(key, Key):
            return bytes(key)
        hint = ": encode it first" if isinstance(key, str) else ""
        raise RecordTypeError(
            f"key must be bytes, not {key.__class__.__name__}{hint}", path=self._parts.path
        )

    def _topic_selection(self, type: int | None, topic: str, key: bytes | None) -> Selection:
        if type is not None:
            raise InvalidOptionError(
                f"type and topic exclude each other: the messages of topic {topic!r} have types of "
                "their own",
                path=self._parts.path,
            )
        if not isinstance(topic, str):
            raise InvalidOptionError(f"topic must be the name of a topic, not {topic!r}")
        found = _find_topic[0](self, topic, key is not None)
        return Selection(found.types(), key, found.noted_type, found.note, found.more)
