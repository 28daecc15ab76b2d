"""Test an installed commitlog: kill a writer, recover, read, keep a tailer's place, run the
command.

    python -I wheels/smoke.py SOURCES

Exits with an error if anything fails, or if a module was imported from below SOURCES.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import commitlog
from commitlog import bus

KILL_AFTER = 1000  # acknowledged records
WRITE = "--write"


class Price(bus.Message, type=1):
    """A message of the bus."""

    item: bus.int64
    cents: bus.int64


def write(path: str) -> None:
    """Append records without end and print the number of each one that is durable."""
    with commitlog.open(path, segment_size="64KiB") as log:
        number = 0
        while True:
            log.append(b"record %d" % number, key=b"key", sync=number % 100 == 99)
            if number % 100 == 99:
                print(number, flush=True)
            number += 1


@contextlib.contextmanager
def writing(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", __file__, WRITE, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def check_kill(path: Path) -> int:
    """Kill a writer with SIGKILL; return how many records the recovered log has."""
    with writing(path) as writer:
        assert writer.stdout is not None
        acknowledged = next(number for number in map(int, writer.stdout) if number >= KILL_AFTER)
    assert writer.returncode == -signal.SIGKILL
    with commitlog.open(path) as log:
        values = list(log.tailer().values())
        assert len(values) > acknowledged, (len(values), acknowledged)
        assert values == [b"record %d" % number for number in range(len(values))]
        assert log.count() == len(values)
    return len(values)


def check_tailers(path: Path, count: int) -> None:
    """Read forward, backward, in batches and by name, and append after a recovery."""
    with commitlog.open(path, flush="sync") as log:
        with log.tailer("place") as tailer:
            assert next(iter(tailer)).value == b"record 0"
            tailer.seek("end")
        position = log.append(b"last")
        assert log.read(position).value == b"last"
        assert next(iter(log.tailer(direction="backward"))).sequence == count
    with commitlog.open(path) as log:
        with log.tailer("place") as tailer:
            assert [record.value for record in tailer] == [b"last"]
        assert len(log.tailer().read_batch(count + 1).positions) > 0
        assert [state.name for state in log.tailers()] == ["place"]


def check_bus(path: Path) -> None:
    with bus.writer(path) as writer, bus.reader(path) as reader:
        writer.write(Price(item=1, cents=995))
        assert reader.next(timeout="10s")
        assert reader.read(Price).cents == 995


def check_command(path: Path, count: int) -> None:
    """Run the command that was installed beside the interpreter."""
    command = Path(sys.executable).with_name("commitlog")

    def output_of(*arguments: str) -> str:
        return subprocess.run(
            [command, *arguments, str(path)], check=True, capture_output=True, text=True
        ).stdout

    assert (
        version("commitlog-engine")
        in subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
    )
    assert len(output_of("cat").splitlines()) == count + 1
    assert output_of("verify")
    assert output_of("info")


def main() -> None:
    if sys.argv[1] == WRITE:
        write(sys.argv[2])
    sources = os.path.realpath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        count = check_kill(path)
        check_tailers(path, count)
        check_bus(Path(folder, "bus"))
        check_command(path, count)
    files = {
        name: os.path.realpath(getattr(module, "__file__", None) or os.devnull)
        for name, module in sys.modules.items()
    }
    del files["__main__"]
    foreign = {
        name: file
        for name, file in files.items()
        if file.startswith(sources + os.sep) and "site-packages" not in file
    }
    assert not foreign, foreign
    print(
        f"commitlog {version('commitlog-engine')} on Python {sys.version.split()[0]}: {count} "
        "records recovered"
    )


if __name__ == "__main__":
    main()
