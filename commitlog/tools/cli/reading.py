"""The options that `cat` and `tail` share, and the records that they select."""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass

import click

import commitlog
from commitlog import CommitLog, Tailer
from commitlog.base.moment import read_moment
from commitlog.errors import InvalidOptionError, TopicNotFoundError
from commitlog.tools.cli import parameters
from commitlog.tools.cli.decoded import BatchDecoder
from commitlog.tools.cli.filter import Filter, Pattern
from commitlog.tools.cli.output import echo
from commitlog.tools.cli.where import Condition
from commitlog.topics.schema import SCHEMA_TYPE
from commitlog.topics.topics_state import catalog_of
from commitlog.types import Direction, OnDamage, Start, TailerOptions, Visibility

BATCH_RECORDS = 65536

_BOUNDS = (
    click.option(
        "--from",
        "place",
        type=parameters.start,
        metavar="POSITION|first|end",
        help="Begin at this position.",
    ),
    click.option(
        "--from-sequence",
        "sequence",
        type=parameters.whole(0),
        metavar="N",
        help="Begin with the record that has this sequence number.",
    ),
    click.option(
        "--since",
        type=parameters.moment,
        metavar="TIME",
        help="Begin with the first record at or after this time.",
    ),
    click.option(
        "--to", type=parameters.position, metavar="POSITION", help="End before this position."
    ),
    click.option(
        "--until",
        type=parameters.moment,
        metavar="TIME",
        help="End before the first record at or after this time.",
    ),
)
_HOW = (
    click.option(
        "-z",
        "--time-zone",
        "zone",
        type=parameters.zone,
        default="UTC",
        show_default=True,
        metavar="ZONE",
        help="Print times in this zone, and use it for a TIME that names no zone: Europe/Berlin, "
        "UTC or local.",
    ),
    click.option(
        "--visibility",
        type=click.Choice(["committed", "flushed", "replicated"]),
        default="committed",
        show_default=True,
        help="Print all committed records, or only flushed ones, which survive a power cut, or "
        "only replicated ones, which enough copies have.",
    ),
    click.option(
        "--on-damage",
        type=click.Choice(["raise", "skip"]),
        default="raise",
        show_default=True,
        help="End at damage, or report and skip it. The exit status is 1 in both cases.",
    ),
    click.option(
        "--store",
        metavar="ADDRESS",
        help="Read the records that the disk no longer has from this store of the log.",
    ),
)
_OPTIONS = (
    *_BOUNDS,
    click.option("--limit", type=parameters.whole(0), metavar="N", help="Print at most N records."),
    click.option(
        "-i",
        "--include",
        type=parameters.pattern,
        multiple=True,
        metavar="REGEX",
        help="Print only records whose value REGEX matches; repeat it to require several.",
    ),
    click.option(
        "-e",
        "--exclude",
        type=parameters.pattern,
        multiple=True,
        metavar="REGEX",
        help="Exclude records whose value REGEX matches.",
    ),
    *_HOW,
    click.option(
        "--decode",
        is_flag=True,
        help="Print messages of topics by their schemas, and leave out the records of the schemas. "
        "The exit status is 1 if a message cannot be decoded.",
    ),
    click.option(
        "--topic",
        "--method",
        "topics",
        type=parameters.tailer_name,
        multiple=True,
        metavar="NAME",
        help="Print only messages of this topic, or calls of this method; repeat it for several. "
        "Implies --decode.",
    ),
    click.option(
        "--where",
        type=parameters.where,
        metavar="CONDITION",
        help="Print only messages whose fields meet this, such as 'amount > 3 and city in "
        '["Rome"]\'. Implies --decode.',
    ),
    click.option(
        "--history",
        "shows_history",
        is_flag=True,
        help="Print the history of each message: the logs through which it came. Implies "
        "--decode; needs the lines of --decode or --json.",
    ),
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON object per line, as --format jsonl does.",
    ),
)


reading_options = parameters.with_options(*_OPTIONS)
"""Adds the options whose values make a `Selection`."""
range_options = parameters.with_options(*_BOUNDS, *_HOW)
"""Adds the options whose values make a `Range`."""


def chosen_format(format: str | None, *, as_json: bool) -> str | None:
    if as_json and format not in (None, "jsonl"):
        raise click.UsageError("--json and --format exclude each other: use one of them")
    return "jsonl" if as_json else format


def check_times(since: str | None, until: str | None, zone: dt.tzinfo | None) -> None:
    """Refuse a range of times whose end is before its start."""
    if since is None or until is None:
        return
    if read_moment(until, zone) < read_moment(since, zone):
        raise click.UsageError(f"--until ({until}) is before --since ({since}): swap them")


@dataclass(frozen=True, kw_only=True)
class Range:
    """A range of records, by the values of `range_options`."""

    place: Start | None
    sequence: int | None
    since: str | None
    to: int | None
    until: str | None
    zone: dt.tzinfo | None
    visibility: Visibility
    on_damage: OnDamage
    store: str | None

    def __post_init__(self) -> None:
        ends = {"--to": self.to, "--until": self.until}
        for options, what in ((self.begins(), "start"), (ends, "end")):
            given = [name for name, value in options.items() if value is not None]
            if len(given) > 1:
                raise click.UsageError(
                    f"{' and '.join(given)} both set the {what}: use one of them"
                )
        if self.to is not None and isinstance(self.place, int) and self.to < self.place:
            raise click.UsageError(f"--to ({self.to}) is below --from ({self.place}): swap them")
        check_times(self.since, self.until, self.zone)

    def opened(self, log: str, wait_s: float = 0) -> CommitLog:
        """Open a log to read it; with its store, if there is one."""
        if self.store is None:
            return commitlog.open(log, "r", wait_for_log=wait_s)
        try:
            store = commitlog.Store(self.store)
        except InvalidOptionError as error:
            raise click.UsageError(error.message) from None
        return commitlog.open(log, "r", store=store, wait_for_log=wait_s)

    def begins(self) -> dict[str, object]:
        """Return the options that set the start, and their values."""
        return {"--from": self.place, "--from-sequence": self.sequence, "--since": self.since}

    @property
    def until_ns(self) -> int | None:
        return None if self.until is None else read_moment(self.until, self.zone)

    def find_end(self, tailer: Tailer) -> int | None:
        """Return the position at which the records end; None if no option sets it, or if no record
        is that late yet.
        """
        if self.to is not None:
            return self.to
        if self.until_ns is not None and tailer.seek(timestamp=self.until_ns):
            return tailer.position
        return None

    def seek_first(self, tailer: Tailer) -> None:
        """Move the tailer to the first record."""
        if self.sequence is not None:
            tailer.seek(sequence=self.sequence)
        elif self.since is not None:
            tailer.seek(timestamp=read_moment(self.since, self.zone))
        else:
            tailer.seek("first" if self.place is None else self.place)


@dataclass(frozen=True, kw_only=True)
class Selection(Range):
    """Select records by the values of `reading_options`."""

    limit: int | None
    include: tuple[Pattern, ...]
    exclude: tuple[Pattern, ...]
    decode: bool
    topics: tuple[str, ...]
    where: Condition | None
    shows_history: bool
    last: int | None = None
    reverse: bool = False

    def begins(self) -> dict[str, object]:
        return {"-n": self.last} | super().begins()

    @property
    def decodes(self) -> bool:
        return bool(self.decode or self.topics or self.where or self.shows_history)

    def decoder(self, log: CommitLog, *, follow: bool = False) -> BatchDecoder | None:
        """Return what decodes and chooses messages, if an option wants that."""
        if not follow:
            catalog_of(log).check_topics(self.topics)
        if not self.decodes:
            return None
        return BatchDecoder(log, self.topics, self.where, shows_history=self.shows_history)

    def check_format(self, format: str | None) -> None:
        """Refuse a format that has no place for histories."""
        if self.shows_history and format not in (None, "jsonl"):
            raise click.UsageError(
                f"--history needs --json, or `commitlog tail` without --format; {format} has no "
                "place for histories"
            )

    def tailer(
        self,
        log: CommitLog,
        *,
        direction: Direction = "forward",
        on_damage: OnDamage | None = None,
        every: bool = False,
    ) -> Tailer:
        """Create a tailer for all records that may be selected; with `every`, for all records."""
        how: TailerOptions = {
            "direction": direction,
            "visibility": self.visibility,
            "on_damage": on_damage or self.on_damage,
        }
        if not every and len(self.topics) == 1:
            # A topic without a schema is waited for.
            with contextlib.suppress(TopicNotFoundError):
                return log.view(topic=self.topics[0], **how)
        return log.tailer(**how)

    def filter(self, decoder: BatchDecoder | None) -> Filter:
        if decoder is None:
            return Filter(self.include, self.exclude)
        return Filter(self.include, self.exclude, SCHEMA_TYPE, decoder.chosen)

    def begins_by_option(self) -> bool:
        return any(given is not None for given in self.begins().values())

    def seek_start(self, log: CommitLog, tailer: Tailer, end: int | None, chosen: Filter) -> None:
        if self.last is not None:
            tailer.seek(self._last_start(log, self.last, chosen, end))
        else:
            self.seek_first(tailer)

    def seek_end(self, tailer: Tailer) -> None:
        """Move the tailer behind the last record."""
        if self.until_ns is not None:
            tailer.seek(timestamp=self.until_ns)
        else:
            tailer.seek("end" if self.to is None else self.to)

    def _last_start(self, log: CommitLog, count: int, chosen: Filter, end: int | None) -> Start:
        """Return the start of the last `count` accepted records below `end`. Damage in between is
        skipped.
        """
        if count == 0:
            return "end"
        with self.tailer(log, direction="backward", on_damage="skip", every=not chosen) as backward:
            while True:
                batch = backward.read_batch(BATCH_RECORDS if chosen else min(count, BATCH_RECORDS))
                if not len(batch):
                    return "first"
                rows = chosen.rows(batch)
                if end is not None:
                    rows = rows[batch.positions[rows] < end]
                if len(rows) >= count:
                    return int(batch.positions[rows[count - 1]])
                count -= len(rows)


def report_damage(tailer: Tailer, reported: int = 0) -> int:
    """Report the damage that the tailer has skipped, without the first `reported` ranges; return
    the number of ranges.
    """
    for position, resume_position in tailer.damaged[reported:]:
        echo(f"commitlog: damage: skipped position {position} to {resume_position}", err=True)
    return len(tailer.damaged)
