"""Each command refuses wrong arguments with status 2, says what it expects, and changes no file."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from commitlog.tools import cli
from tests.tools.cli.program import sealed_log
from tests.tools.cli.test_bad_input import all_of

A_TIME = "expected a time such as 2026-05-01,"
A_START = "expected 'first', 'end' or a position, decimal or 0x..., not "
AN_AGE = "expected an age such as 90s, 36h, 7d, yesterday or 2026-05-01, not "
A_PATTERN = "expected a regular expression of Python, not "
A_FORMAT = "expected one of lines, null, raw, frames, jsonl, csv"
REFUSED: dict[str, list[tuple[str, str]]] = {
    "append": [
        ("--type many", "expected a whole number from 0 to 4294967295, not 'many'"),
        ("--type 4294967296", "expected a whole number from 0 to 4294967295"),
        ("--segment-size big", "expected a size such as 65536, 64K or 64MiB, not 'big'"),
        ("--segment-size 100", "expected a size from 65536 to 1073741824 bytes, a multiple of"),
        ("--format raw", "'raw' is not one of"),
        ("--roll-cycle DAYLY", "did you mean 'DAILY'"),
        ("--roll-cycle DAILY --time-zone Berlin", "expected a time zone such as Europe/Berlin"),
        ("--time-zone UTC", "--roll-epoch and --time-zone need --roll-cycle"),
        ("absent", "does not exist"),
    ],
    "cat": [
        ("--to 0xg", "expected a position, decimal or 0x..., not '0xg'"),
        ("--to 9223372036854775808", "expected a position"),
        ("--limit ten", "expected a whole number of at least 0, not 'ten'"),
        ("--visibility appended", "'appended' is not one of"),
        ("--format xml", f"{A_FORMAT}, parquet, arrow, or a template such as"),
        ("--from 5000 --to 4096", "--to (4096) is below --from (5000)"),
        ("-o out.jsonl --format parquet", "parquet contradicts the suffix of out.jsonl"),
        ("--overwrite", "--overwrite needs a file"),
        ("--from 1 --since now", "--from and --since both set the start"),
        ("--to 1 --until now", "--to and --until both set the end"),
        ("-o /dev/null", "/dev/null is not a regular file"),
        ("--until soon", A_TIME),
    ],
    "tail": [
        ("-n -1", "expected a whole number of at least 0, not '-1'"),
        ("--from last", f"{A_START}'last'"),
        ("--from -1", f"{A_START}'-1'"),
        ("-n 3 --from first", "-n and --from both set the start"),
        ("-n 1 --from 0 --since now", "-n and --from and --since both set the start"),
        ("--from-sequence 3 --since now", "--from-sequence and --since both set the start"),
        ("--wait", "--wait needs --follow: add it"),
        ("--since tomorrow", A_TIME),
        ("--since 2026-02-30", A_TIME),
        ("--since -10", A_TIME),
        ("--since 9999-01-01", A_TIME),
        ("--since -999999999999999w", A_TIME),
        ("-z Europe/Nowhere", "Europe/Berlin, UTC or local, not 'Europe/Nowhere'"),
        ("-z ../../etc/passwd", "expected a time zone"),
        ("-z Europe", "expected a time zone"),
        ("--include '('", f"{A_PATTERN}'(': missing )"),
        ("--exclude '[a'", A_PATTERN),
        ("--stop-at '*'", A_PATTERN),
        ("--speed 0", "from 0.000001 to 1000000, such as 1 or 10, not '0'"),
        ("--speed fast", "expected a number from"),
        ("--max-pause 1s", "--max-pause needs --speed"),
        ("--speed 1 --max-pause soon", "a duration such as 15, 500ms or 10m, not 'soon'"),
        ("--name ../x", "name must be 1 to"),
        ("--format {offset}", "no field {offset}; the fields are position, sequence, timestamp"),
        ("--format {0}", "there is no field {0}"),
        ("--format {value", "'{value' is not a template: expected '}'"),
        ("--format {sequence:q}", "'q' is not a format of the field {sequence}"),
        ("--format {value!r}", "leave out !r"),
        (r"--format '{value}\q'", "a backslash must precede"),
        ("--format xml", f"{A_FORMAT}, or a template such as"),
        ("--format parquet", A_FORMAT),
        ("--json --format raw", "--json and --format exclude each other"),
        ("--json --max-width 80", "--max-width needs a template, not the format jsonl"),
        ("--max-width 0", "expected a whole number of at least 1, not '0'"),
        ("-r -f", "--reverse and --follow exclude each other"),
        ("-r --speed 1", "--reverse and --speed exclude each other"),
        ("-r --name billing", "--reverse and --name exclude each other"),
    ],
    "info": [
        ("--cycles --since noon", A_TIME),
        ("--cycles --since 2026-01-02 --until 2026-01-01", "swap them"),
        ("--since yesterday", "select cycles: add --cycles, or leave them out"),
    ],
    "dump": [
        ("--from x", "expected a position"),
        ("--from 5 --to 4", "swap them"),
    ],
    "top": [
        ("--interval 0", "expected at least 0.1 seconds"),
        ("--interval 0.01", "expected at least 0.1 seconds"),
        ("--interval soon", "expected a duration"),
        ("--interval -1s", "expected a duration"),
        ("--interval 400d", "expected a duration"),
        ("", "top needs a terminal: use --json to print the figures of one interval"),
    ],
    "export-metrics": [
        ("--listen nowhere:", "HOST:PORT or PORT, such as 127.0.0.1:9464, not 'nowhere:'"),
        ("--listen 70000", "HOST:PORT or PORT, such as 127.0.0.1:9464, not '70000'"),
        ("--listen 0 --output x", "--listen and --output exclude each other"),
    ],
    "prune": [
        ("", "--older-than, --max-bytes or --min-free"),
        ("--older-than soon", AN_AGE),
        ("--older-than 2200-01-01", AN_AGE),
        ("--older-than 7", f"{AN_AGE}'7'"),
        ("--max-bytes much", "expected a size"),
        ("--min-free 110%", "--min-free must be a number from 0 to 100"),
        ("--min-free x%", "--min-free must be a size or a percentage"),
        ("--min-free x", "must be a size"),
    ],
    "archive": [
        ("--older-than soon place", AN_AGE),
        ("--older-than 7 place", f"{AN_AGE}'7'"),
        ("--level 30 place", "30"),
        ("nonsense://place", "target must be an address"),
        ("''", "target must be a directory"),
        ("", "Missing argument 'TARGET'"),
    ],
    "tailers": [
        ("reset", "reset needs the name of a tailer"),
        ("reset billing", "reset needs a position"),
        ("delete billing end", "only reset takes a position"),
        ("reset billing middle", A_START),
        ("rewind billing", "'reset', 'delete', 'evict'"),
        ("reset a/b", "letters, digits"),
    ],
    "queue": [
        ("jobs rewind", "'peek', 'dead', 'requeue'"),
        ("a/b", "letters, digits"),
        ("jobs peek -n 0", "0 is not in the range"),
    ],
    "restore": [("restored --until nonsense", "expected a time")],
    "spark export": [
        ("out --step much", "expected a size such as 65536, 64K or 64MiB, not 'much'"),
        ("out --step -1", "expected a size"),
        ("", "Missing argument 'DESTINATION'"),
    ],
    "spark compact": [
        ("new --segment-size \u00b2", "expected a size such as 65536, 64K or 64MiB, not '\u00b2'"),
        ("new --segment-size \u0665", "expected a size"),
    ],
    "spark compress": [("", "No such command 'compress'")],
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sealed_log(tmp_path_factory.mktemp("refused") / "log")


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [(command, *each) for command, cases in REFUSED.items() for each in cases],
    ids=lambda given: ascii(given)[1:25],
)
def test_wrong_arguments_are_refused_naming_valid_ones(
    log: Path, command: str, arguments: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = all_of(log.parent)
    status = cli.run([*command.split(), str(log), *shlex.split(arguments)])
    printed = capfd.readouterr()
    assert (status, printed.out) == (2, "")
    assert said in " ".join(printed.err.split())
    assert all_of(log.parent) == before
