"""`commitlog top`: the figures of a log seen from outside, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Sparkline, Static

import commitlog
from commitlog.tools import cli
from commitlog.tools.cli.dashboard import Dashboard, Help, LatencySampler
from commitlog.tools.cli.quantities import latency_text, size_text
from commitlog.tools.cli.rates import Rates, as_object
from commitlog.tools.observe.queue_watch import QueueWatch
from commitlog.tools.observe.watching import LogWatch
from tests.tools.cli.program import (
    LIMIT_S,
    ROOT,
    SEGMENT,
    on_terminal,
    read_rest,
    read_until,
    run,
    sealed_log,
)

SHORT = ("--interval", "0.1")
SIZES = [(80, 24), (40, 12)]
WRITER = (
    "import commitlog, sys, time; log = commitlog.open(sys.argv[1]); log.append(b'x'); "
    "print(flush=True); time.sleep(60)"
)
Until = Callable[..., None]


@contextmanager
def writing(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start another process that has the log open and has appended one record."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def is_as_it_was(terminal: int) -> bool:
    """Return whether the terminal is in line mode without echo, as `on_terminal` has set it."""
    modes: int = termios.tcgetattr(terminal)[3]
    return modes & (termios.ICANON | termios.ISIG | termios.ECHO) == termios.ICANON | termios.ISIG


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of a few records."""
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append_many([b"value"] * 100)
    return tmp_path / "log"


# --- JSON -----------------------------------------------------------------------------------------


def test_json_has_watermarks_records_writers_and_disk(path: Path) -> None:
    with writing(path) as process:
        done = run("top", "--json", *SHORT, path)
        found = json.loads(done.stdout)
        assert (done.returncode, done.stderr, found["path"], found["mode"]) == (
            0,
            b"",
            str(path),
            "mapped",
        )
        assert [
            (writer["pid"], writer["state"], writer["claims_per_s"]) for writer in found["writers"]
        ] == [(process.pid, "idle", 0)]
    assert (found["first_sequence"], found["next_sequence"], found["records_per_s"]) == (0, 101, 0)
    assert found["tail_position"] == found["committed_position"] == 4096 + 100 * 24 + 24
    assert found["segments"] >= 1
    assert found["disk_bytes"] > 0


def test_queues_are_shown(path: Path) -> None:
    with commitlog.queue(path, "mailer") as queue:
        queue.accept(queue.take_many(10))
        queue.take().reject("no use")
        held = queue.take()
        (found,) = json.loads(run("top", *SHORT, "--json", path).stdout)["queues"]
        assert found["oldest_s"] > 0
        del found["oldest_s"]
        assert found == {
            "name": "mailer",
            "depth": 89,
            "held": 1,
            "waiting": 0,
            "dead": 1,
            "paused": False,
            "accepted_per_s": 0,
        }
        with QueueWatch(str(path)) as watch:
            assert watch.look()[0].accepted_per_s is None
            held.accept()
            (after,) = watch.look()
            assert after.accepted_per_s is not None
            assert after.accepted_per_s > 0
            queue.requeue()
            assert watch.look()[0].stats.dead == 0
    with QueueWatch(str(path)) as watch:
        assert len(watch.look()) == 1
        shutil.rmtree(path / "queues")
        assert watch.look() == []


def test_killed_writer_is_shown_as_dead(path: Path) -> None:
    with writing(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        (writer,) = json.loads(run("top", "--json", *SHORT, path).stdout)["writers"]
    assert (writer["pid"], writer["state"]) == (process.pid, "dead")


def test_rates_are_differences_between_two_polls(path: Path) -> None:
    with commitlog.open(path) as log, LogWatch(path) as watch:
        before = watch.look()
        log.append_many([b"v" * 16] * 50)
        now = watch.look()
    rates = Rates.between(before, now)
    seconds = now.seconds_since(before)
    assert rates.tail_bytes == pytest.approx(50 * 32 / seconds)
    assert rates.records == pytest.approx(50 / seconds)
    assert rates.claims == pytest.approx({0: 1 / seconds})
    assert as_object(now, rates)["writers"][0]["claims_per_s"] == rates.claims[0]


def test_recreated_log_has_no_rates(path: Path) -> None:
    with LogWatch(path) as watch:
        before = watch.look()
        shutil.rmtree(path)
        commitlog.open(path).close()
        rates = Rates.between(before, watch.look())
    assert (rates.tail_bytes, rates.records, rates.claims) == (None, None, {})


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["archive", "segment"])
def test_top_of_an_archive_or_segment_is_refused(tmp_path: Path, kind: str) -> None:
    log = sealed_log(tmp_path / "log")
    target = min(log.glob("*.seg"))
    if kind == "archive":
        pytest.importorskip("zstandard")
        target = tmp_path / "place"
        assert run("archive", "--keep", log, target).returncode == 0
    done = run("top", "--json", target)
    assert (done.returncode, done.stdout) == (1, b"")
    assert (
        f"top needs a log, and this is a{'n' * (kind == 'archive')} {kind}" in done.stderr.decode()
    )


# --- on a terminal --------------------------------------------------------------------------------


def shown(pilot: Pilot[int]) -> str:
    """Return all text of the dashboard, including what is scrolled out of sight."""
    app = pilot.app
    texts = [
        app.query_one(f"#{name}", Static)
        for name in (
            "title",
            "append",
            "flush",
            "latency",
            "figures",
            "writers",
            "tailers",
            "queues",
        )
    ]
    return "\n".join(
        str(line.text).rstrip()
        for text in texts
        for line in text.render_lines(text.region.reset_offset)
    )


async def _until_shown(pilot: Pilot[int], text: str) -> str:
    for _ in range(600):
        if text in (seen := shown(pilot)):
            return seen
        await pilot.pause(0.1)
    raise AssertionError(f"{text!r} is not in {seen!r}")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_dashboard_fits_its_terminal(path: Path, size: tuple[int, int]) -> None:
    async def look() -> None:
        with (
            commitlog.open(path) as log,
            log.tailer("billing", required=True),
            LogWatch(path) as watch,
        ):
            log.append_many([b"x" * 100] * 1000)
            dashboard = Dashboard(watch, 0.1)
            async with dashboard.run_test(size=size) as pilot:
                seen = await _until_shown(pilot, "idle")
                for word in (
                    "mapped",
                    "append",
                    "flush",
                    "latency",
                    "committed",
                    "1,100 records",
                    "billing",
                    "KiB",
                    str(os.getpid()),
                ):
                    assert word in seen, (word, seen)
                assert "\u2026" not in seen.partition("\n")[2]  # only the path is cut
                assert all(line.size.width > 5 for line in dashboard.query(Sparkline))
                assert all(widget.region.right <= size[0] for widget in dashboard.query(Static))

    asyncio.run(look())


def test_dashboard_has_a_row_for_each_queue(path: Path) -> None:
    async def look() -> None:
        with LogWatch(path) as watch:
            dashboard = Dashboard(watch, 0.1)
            async with dashboard.run_test(size=(80, 40)) as pilot:
                assert not dashboard.query_one("#queues", Static).display
                with commitlog.queue(path, "mailer"), commitlog.queue(path, "other"):
                    seen = await _until_shown(pilot, "mailer")
                    assert "other" in seen
                    assert "accepted/s" in seen

    asyncio.run(look())


def test_small_terminal_scrolls_to_the_tailers(path: Path) -> None:
    async def look() -> None:
        with LogWatch(path) as watch:
            dashboard = Dashboard(watch, 60)
            async with dashboard.run_test(size=(40, 12)) as pilot:
                area = dashboard.query_one(VerticalScroll)
                assert area.max_scroll_y > 0
                await pilot.press("end")
                await pilot.pause(0.5)
                assert area.scroll_y == area.max_scroll_y
                assert dashboard.query_one("#tailers").region.bottom <= 12

    asyncio.run(look())


def test_help_key_opens_help_and_any_key_closes_it(path: Path) -> None:
    async def look() -> None:
        with LogWatch(path) as watch:
            dashboard = Dashboard(watch, 60)
            async with dashboard.run_test(size=(40, 12)) as pilot:
                await pilot.press("question_mark")
                assert isinstance(dashboard.screen, Help)
                assert dashboard.screen.query_one(Static).region.right <= 40
                await pilot.press("x")
                assert not isinstance(dashboard.screen, Help)
                for key in ("question_mark", "h", "escape", "space", "q"):
                    await pilot.press("h")
                    assert isinstance(dashboard.screen, Help)
                    await pilot.press(key)
                    assert not isinstance(dashboard.screen, Help), key

    asyncio.run(look())


def test_latency_of_appended_records_is_measured(path: Path, until: Until) -> None:
    sampler = LatencySampler(str(path))
    sampler.start()
    try:
        with commitlog.open(path) as log:

            def appended() -> bool:
                log.append(b"x")
                return bool(sampler.latencies_ns)

            until(appended)
        assert all(latency_ns < 60 * 10**9 for latency_ns in sampler.take())
    finally:
        sampler.end()


def test_q_ends_top_and_restores_the_terminal(path: Path) -> None:
    with on_terminal("top", *SHORT, path) as (process, terminal):
        read_until(terminal, b"no writer has the log open")
        assert not is_as_it_was(terminal)
        os.write(terminal, b"xq")
        rest = read_rest(terminal)
        assert process.wait(LIMIT_S) == 0
        assert b"\x1b[?1049l" in rest  # back from the alternate screen
        assert is_as_it_was(terminal)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name
)
def test_signal_ends_top_and_restores_the_terminal(path: Path, number: signal.Signals) -> None:
    with on_terminal("top", *SHORT, path) as (process, terminal):
        read_until(terminal, b"no writer has the log open")
        process.send_signal(number)
        read_rest(terminal)
        assert process.wait(LIMIT_S) == cli.INTERRUPTED
        assert is_as_it_was(terminal)


def test_top_ends_when_its_log_is_removed(path: Path) -> None:
    with on_terminal("top", *SHORT, path) as (process, terminal):
        read_until(terminal, b"no writer has the log open")
        path.rename(path.with_name("gone"))  # no poll sees a half-removed log
        rest = read_rest(terminal)
        assert process.wait(LIMIT_S) == 1
    assert b"commitlog: the log was removed while it was shown" in rest


def test_quantities_are_shown_in_a_fitting_unit() -> None:
    assert [size_text(count) for count in (0, 1, 1023, 1024, 1536, 1 << 20)] == [
        "0 B",
        "1 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "1.0 MiB",
    ]
    assert [latency_text(seconds) for seconds in (0.00123, 1.5)] == ["1.23 ms", "1.50 s"]
