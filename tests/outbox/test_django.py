"""The outbox of a Django project: its migration, its transactions, and its relay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import commitlog
from tests.outbox.postgresql import Server

PROJECT = """
import sys

import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["commitlog.outbox.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends." + sys.argv[1], "NAME": sys.argv[2],
                           "HOST": sys.argv[3], "USER": "postgres"}},
)
django.setup()
from django.core.management import call_command
from django.db import connection, transaction

from commitlog.outbox.django import put
from commitlog.outbox.django.models import OutboxRow

call_command("makemigrations", "commitlog_outbox", "--check", "--dry-run", verbosity=0)
call_command("migrate", verbosity=0)
with transaction.atomic():
    put(b"first", key=b"k", type=3)
    put(b"second")
try:
    with transaction.atomic():
        put(b"rolled back")
        raise ValueError
except ValueError:
    pass
assert OutboxRow.objects.count() == 2
connection.close()
call_command("commitlog_outbox", sys.argv[4], "--once")
assert OutboxRow.objects.count() == 0
connection.close()
"""


def check_project(folder: Path, *database: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROJECT, *database, folder / "log"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with commitlog.open(folder / "log", "r") as log:
        found = [(record.value, record.key, record.type) for record in log.tailer()]
    assert found == [(b"first", b"k", 3), (b"second", None, 0)]


def test_django_project_on_sqlite_moves_its_rows(tmp_path: Path) -> None:
    check_project(tmp_path, "sqlite3", str(tmp_path / "shop.db"), "")


@pytest.mark.long
def test_django_project_on_postgresql_moves_its_rows(tmp_path: Path, server: Server) -> None:
    check_project(tmp_path, "postgresql", "postgres", str(server.folder))
