"""What operators take from `deploy/`: its metrics, commands, options and programs exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from commitlog.metrics import LogCollector
from commitlog.tools.cli.group import group

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
METRIC = re.compile(r"\bcommitlog_([a-z_]+)")
ENTRY = re.compile(r"^\| (`.*?`)(?: \(.*?\))? \|", re.MULTILINE)


def known_metrics() -> set[str]:
    """Return the names of all metrics of a log."""
    names = set()
    for family in LogCollector().describe():
        name = family.name.removeprefix("commitlog_")
        names.add(f"{name}_total" if family.type == "counter" else name)
    return names


def commands_of(arguments: list[str]) -> None:
    """Parse the arguments of `commitlog`, as the command does before it runs."""
    command = group.get_command(click.Context(group), arguments[0])
    assert command is not None, arguments
    command.make_context("commitlog", list(arguments[1:]))


def compose() -> dict[str, Any]:
    content = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize("name", ["grafana/commitlog.json", "prometheus/alerts.yml"])
def test_each_metric_is_exported(name: str) -> None:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    used = {found.removesuffix("_bucket") for found in METRIC.findall(text)}
    assert used
    assert used <= known_metrics()


def test_page_lists_each_metric() -> None:
    page = (ROOT / "docs/watching.md").read_text(encoding="utf-8")
    table = page[page.index("## Prometheus") :]
    listed = {name for line in ENTRY.findall(table) for name in re.findall(r"`([a-z_]+)`", line)}
    flows = set(re.findall(r"`(flow_[a-z_]+)`", table))
    assert known_metrics() <= listed | flows


def test_alerts_have_what_prometheus_needs() -> None:
    content = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text(encoding="utf-8"))
    for rule in content["groups"][0]["rules"]:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        for command in re.findall(r"commitlog ([a-z-]+)", str(rule["annotations"])):
            assert group.get_command(click.Context(group), command), command


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    content = json.loads((DEPLOY / "grafana/commitlog.json").read_text(encoding="utf-8"))
    seen: set[tuple[int, int]] = set()
    for panel in content["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & seen, panel["title"]
        assert max(x for x, _ in cells) < 24
        seen |= cells
    assert len({panel["id"] for panel in content["panels"]}) == len(content["panels"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_unit_runs_a_command_that_exists(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (line,) = re.findall(r"^ExecStart=/usr/local/bin/commitlog (.*)$", text, re.MULTILINE)
    for name, value in (("LISTEN", "127.0.0.1:0"), ("METRICS", "127.0.0.1:0"),
                        ("URL", "tls://a:7070/orders")):  # fmt: skip
        line = line.replace(f"${{{name}}}", value)
    file = tmp_path / "file"
    file.touch()
    words = [str(file) if each.startswith("/etc/") else each for each in shlex.split(line)]
    commands_of(words)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_unit(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing: apt install systemd")
    unit = tmp_path / path.name.replace("@", "@orders")
    text = path.read_text(encoding="utf-8").replace("/usr/local/bin/commitlog", "/bin/true")
    unit.write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", unit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert path.name.split("@")[0] not in done.stderr
    assert done.returncode == 0, done.stderr


def test_services_of_compose_run_commands_that_exist() -> None:
    services = compose()["services"]
    assert {"primary", "copy", "prometheus", "grafana"} <= services.keys()
    for service in services.values():
        if "command" in service:
            commands_of(service["command"])
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in compose()["volumes"] or (DEPLOY / "compose" / source).exists()


def test_primary_of_compose_exports_stores_and_ends(
    until: Callable[..., None], tmp_path: Path
) -> None:
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "COMMITLOG_TOKEN": "word",
        "COPIES": "127.0.0.1:0", "METRICS": "127.0.0.1:0", "DATA": str(tmp_path / "orders"),
        "STORE": str(tmp_path / "store"),
    }  # fmt: skip
    primary = subprocess.Popen(
        [sys.executable, DEPLOY / "compose/primary.py"], env=environment,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert primary.stdout is not None
        url = "http://" + primary.stdout.readline().split()[-1] + "/metrics"

        def next_sequence() -> float:
            with urllib.request.urlopen(url) as answer:
                text = answer.read().decode()
            return float(re.findall(r"^commitlog_next_sequence\{.*\} (.*)$", text, re.MULTILINE)[0])

        until(lambda: next_sequence() >= 1)
        primary.send_signal(signal.SIGTERM)
        assert primary.wait(30) == 0
        assert any((tmp_path / "store").iterdir())
    finally:
        primary.kill()
        primary.wait()
        if primary.stdout is not None:
            primary.stdout.close()
