"""What the code host and pre-commit read: it parses, agrees with constraints.txt, and names files
that exist.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PIN = re.compile(r"^([\w.-]+)==(\S+)$", re.MULTILINE)


def load(path: Path) -> dict[Any, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict), path
    return content


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found = load(path)["jobs"]
    assert isinstance(found, dict)
    return found


def steps() -> list[dict[str, str]]:
    return [
        step for path in WORKFLOWS for job in jobs(path).values() for step in job.get("steps", ())
    ]


def test_hooks_have_the_versions_of_constraints() -> None:
    pinned = dict(PIN.findall((ROOT / "constraints.txt").read_text(encoding="utf-8")))
    hooks = [
        hook for repo in load(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]
    ]
    needed = {
        found
        for hook in hooks
        for found in PIN.findall("\n".join(hook.get("additional_dependencies", ())))
    }
    tools = {"ruff", "clang-format", "cython-lint"}
    assert needed == {(name, pinned[name]) for name in tools}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_reads_only_and_has_timeouts(path: Path) -> None:
    assert load(path)["permissions"] == {"contents": "read"}
    most = 350 if path.name == "weekly.yml" else 90  # it ends before the limit of the service
    for name, job in jobs(path).items():
        assert "uses" in job or job["timeout-minutes"] <= most, name


def test_only_the_publishing_job_may_ask_for_a_token() -> None:
    granted = {
        (path.name, name): job["permissions"]
        for path in WORKFLOWS
        for name, job in jobs(path).items()
        if "permissions" in job
    }
    assert granted == {("release.yml", "publish"): {"id-token": "write"}}
    publish = jobs(ROOT / ".github/workflows/release.yml")["publish"]
    assert publish["environment"]["name"] == "pypi"
    assert publish["needs"] == ["check", "inspect"]
    assert not any("run" in step for step in publish["steps"])


def test_each_action_is_pinned_to_one_version() -> None:
    used = {step["uses"] for step in steps() if "uses" in step}
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+(\.\d+\.\d+)?", each) for each in used), used
    assert len({each.partition("@")[0] for each in used}) == len(used), used


def test_workflows_name_files_and_targets_that_exist() -> None:
    called = [job["uses"] for path in WORKFLOWS for job in jobs(path).values() if "uses" in job]
    assert called
    assert all((ROOT / each).is_file() for each in called)
    targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    commands = [step["run"] for step in steps() if "run" in step]
    assert {found for each in commands for found in re.findall(r"\bmake (\S+)", each)} <= targets
    for script in (found for each in commands for found in re.findall(r"\S+\.py\b", each)):
        assert (ROOT / script).is_file(), script


def test_lint_docs_and_model_run_once_in_ci() -> None:
    check = jobs(ROOT / ".github/workflows/check.yml")
    for target in ("lint", "docs", "model"):
        (name,) = [
            name
            for name, job in check.items()
            for step in job["steps"]
            if step.get("run") == f"make {target}"
        ]
        assert "strategy" not in check[name]
    assert not any("pyright" in step.get("run", "") for step in steps())  # `make lint` runs it


def test_dependabot_knows_packages_and_actions() -> None:
    updates = load(ROOT / ".github/dependabot.yml")["updates"]
    assert {each["package-ecosystem"] for each in updates} == {"pip", "github-actions"}


def test_owned_paths_exist() -> None:
    text = (ROOT / ".github/CODEOWNERS").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert rows[0][0] == "*"
    for pattern, owner in rows[1:]:
        assert owner.startswith("@")
        assert (ROOT / pattern.removeprefix("/")).exists(), pattern


def test_wheels_are_built_for_each_declared_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = {
        f"cp3{each.rpartition('.')[2]}-*"
        for each in project["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", each)
    }
    assert declared == set(project["tool"]["cibuildwheel"]["build"])
