"""`commitlog export-metrics`: printed, written to a file, or served."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import commitlog
from tests.setups import SEGMENT
from tests.tools.cli.program import LIMIT_S, read_until, run, started

Until = Callable[..., None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with commitlog.open(tmp_path / "log", segment_size=SEGMENT) as log:
        log.append_many([b"one", b"two"])
    return tmp_path / "log"


def tail_of(text: str, path: Path) -> float:
    found = re.search(
        rf'^commitlog_tail_position_bytes\{{log="{re.escape(str(path))}"\}} (\S+)$',
        text,
        re.MULTILINE,
    )
    assert found is not None, text
    return float(found[1])


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        text: bytes = answer.read()
    return text.decode()


def test_metrics_of_several_logs_change_no_file(path: Path, tmp_path: Path) -> None:
    commitlog.open(tmp_path / "other", segment_size=SEGMENT).close()
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    done = run("export-metrics", path, tmp_path / "other", path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert tail_of(done.stdout.decode(), path) > tail_of(done.stdout.decode(), tmp_path / "other")
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_output_replaces_the_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "log.prom").write_text("old")
    done = run("export-metrics", "--output", tmp_path / "log.prom", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert tail_of((tmp_path / "log.prom").read_text(), path) == 4096 + 48
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log", "log.prom"]


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)],
    ids=["INT", "TERM", "HUP"],
)
def test_each_scrape_reads_the_log_again(path: Path, number: signal.Signals, status: int) -> None:
    with started("export-metrics", "--listen", "0", path) as process:
        assert process.stderr is not None
        said = read_until(process.stderr.fileno(), b"\n").decode()
        found = re.fullmatch(r"listening at (http://127\.0\.0\.1:\d+/metrics) until Ctrl-C\n", said)
        assert found is not None, said
        with commitlog.open(path) as log:
            assert tail_of(fetch(found[1]), path) == log.tail_position
            log.append(b"three")
            text = fetch(found[1])
            assert tail_of(text, path) == log.tail_position
            assert 'state="appending"} 1.0' in text
        for file in path.iterdir():
            file.unlink()
        assert f'commitlog_up{{log="{path}"}} 0.0' in fetch(found[1])
        process.send_signal(number)
        output, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, output) == (status, b"")
    assert errors.count(b"\n") <= 1


def test_missing_log_port_or_directory_prints_one_line(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Do not wait for a name server that does not answer.
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")
    with started("export-metrics", "--listen", "127.0.0.1:0", path) as process:
        assert process.stderr is not None
        port = int(read_until(process.stderr.fileno(), b"\n").split(b":")[2].split(b"/")[0])
        cases: list[tuple[list[object], bytes]] = [
            ([tmp_path / "absent"], b"there is no log here"),
            (
                ["--listen", f"127.0.0.1:{port}", path],
                b"cannot listen at 127.0.0.1:%d: Address already in use" % port,
            ),
            (["--listen", "no such host:0", path], b"not 'no such host:0'"),
            (["--listen", "host.invalid:9464", path], b"cannot listen at host.invalid:9464: "),
            (
                ["--output", tmp_path / "absent" / "x.prom", path],
                b"x.prom: No such file or directory",
            ),
        ]
        for arguments, said in cases:
            done = run("export-metrics", *arguments)
            assert done.returncode in (1, 2), arguments
            assert said in done.stderr
            assert done.stdout == b""
            assert done.returncode == 2 or done.stderr.count(b"\n") == 1, done.stderr


def test_missing_prometheus_client_names_the_extra(
    path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    script = (
        "import sys\nsys.modules['prometheus_client'] = None\nfrom commitlog.tools.cli import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    done = run_python(script, "export-metrics", path)
    assert done.returncode == 2
    assert (
        "commitlog.metrics needs prometheus_client: pip install 'commitlog-engine[metrics]'"
        in done.stderr
    )
