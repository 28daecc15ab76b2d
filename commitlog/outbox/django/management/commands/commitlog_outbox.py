"""`manage.py commitlog_outbox LOG`: the relay of a Django project."""

from __future__ import annotations

import signal
from typing import Any

import sqlalchemy as sa
from django.core.management.base import BaseCommand
from django.db import connections

import commitlog
from commitlog.outbox import Outbox


def engine_of(using: str) -> sa.Engine:
    """Return an engine for a database of the settings."""
    found = connections[using].settings_dict
    if connections[using].vendor == "sqlite":
        return sa.create_engine(sa.URL.create("sqlite", database=str(found["NAME"])))
    url = sa.URL.create(
        f"{connections[using].vendor}+psycopg",
        username=found["USER"] or None,
        password=found["PASSWORD"] or None,
        host=found["HOST"] or None,
        port=int(found["PORT"]) if found["PORT"] else None,
        database=found["NAME"] or None,
        query={name: it for name, it in found["OPTIONS"].items() if isinstance(it, str)},
    )
    return sa.create_engine(url)


class Command(BaseCommand):
    """Move the rows of the outbox into a log."""

    help = "Move the rows of the outbox into LOG until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("log", metavar="LOG")
        parser.add_argument("--database", default="default", help="of the settings")
        parser.add_argument("--once", action="store_true", help="end when no row is left")
        parser.add_argument("--standby", action="store_true", help="wait for another relay to end")
        parser.add_argument("--restored", action="store_true", help="begin anew: rows may be twice")

    def handle(self, *_: Any, **options: Any) -> None:
        wait = None if options["standby"] else 0
        outbox, engine = Outbox("commitlog_outbox"), engine_of(options["database"])
        with (
            commitlog.open(options["log"]) as log,
            outbox.relay(engine, log, wait=wait, restored=options["restored"]) as relay,
        ):
            if options["once"]:
                while relay.run_once():
                    pass
            else:
                signal.signal(signal.SIGTERM, lambda *_: relay.stop())
                relay.run()
