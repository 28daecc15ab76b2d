"""`make release`: each thing that must not be published is named."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import commitlog
from wheels import release

ROOT = Path(__file__).resolve().parents[1]
CHANGES = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n\n- More.\n\n## [1.1.0]\n"
METADATA = b"Metadata-Version: 2.4\nName: commitlog-engine\nVersion: 1.2.0\n\ntext\n"
TRACKED = ["LICENSE", "commitlog/__init__.py", "commitlog/_kernel/engine.pyx"]
WHEEL = "commitlog_engine-1.2.0-cp311-cp311-manylinux_2_28_x86_64.whl"


def write_source(dist: Path, names: list[str], metadata: bytes = METADATA) -> None:
    with tarfile.open(dist / "commitlog_engine-1.2.0.tar.gz", "w:gz") as archive:
        for name in ["PKG-INFO", *names]:
            member = tarfile.TarInfo(f"commitlog_engine-1.2.0/{name}")
            member.size = len(metadata) if name == "PKG-INFO" else 0
            archive.addfile(member, io.BytesIO(metadata))


def write_wheel(dist: Path, name: str = WHEEL, *more: str, lacks: str = "") -> None:
    names = {
        "commitlog_engine-1.2.0.dist-info/METADATA": METADATA,
        "commitlog/_kernel/engine.cpython-311-x86_64-linux-gnu.so": b"",
        "commitlog/include/commitlog/capi.h": b"",
        "commitlog/py.typed": b"",
        **dict.fromkeys(more, b""),
    }
    with zipfile.ZipFile(dist / name, "w") as archive:
        for member, content in names.items():
            if member != lacks:
                archive.writestr(member, content)


def dist_problems(dist: Path) -> list[str]:
    return list(release.dist_problems(dist, "1.2.0", TRACKED))


# --- the checkout ---------------------------------------------------------------------------------


def test_version_is_the_same_in_package_and_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = (ROOT / "commitlog/__init__.py").read_text(encoding="utf-8")
    assert list(release.version_problems(project["version"], package)) == []
    assert project["version"] == commitlog.__version__


@pytest.mark.parametrize(
    ("version", "package"),
    [("1.2.0", '__version__ = "1.1.0"\n'), ("1.2.0", ""), ("1.2", '__version__ = "1.2"\n')],
)
def test_wrong_version_is_a_problem(version: str, package: str) -> None:
    assert len(list(release.version_problems(version, package))) == 1


def test_changelog_of_the_checkout_has_its_version_first() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = [name for name, _, _ in release.SECTION.findall(changelog)]
    assert sections[:2] == ["Unreleased", commitlog.__version__]


def test_changelog_with_the_release_on_top_passes() -> None:
    assert list(release.changelog_problems("1.2.0", CHANGES)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("[1.2.0]", "[1.2.1]", "its first sections"),
        ("## [Unreleased]\n", "", "its first sections"),
        ("## [Unreleased]\n", "## [Unreleased]\n\n- New.\n", "has changes"),
        (" - 2027-01-31", "", "has no date"),
        (" - 2027-01-31", " - soon", "has no date"),
        ("- More.\n", "", "is empty"),
    ],
)
def test_unfinished_changelog_is_a_problem(old: str, new: str, problem: str) -> None:
    (found,) = release.changelog_problems("1.2.0", CHANGES.replace(old, new))
    assert problem in found


def test_placeholder_url_is_a_problem() -> None:
    (found,) = release.url_problems({"Source": "https://example.org/commitlog"})
    assert "Source is a placeholder" in found
    assert list(release.url_problems({"Source": "https://host.test/commitlog"})) == []


def test_tag_must_be_on_a_clean_checkout(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "tag.gpgSign=false")
        subprocess.run(["git", *names, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def found() -> list[str]:
        return list(release.tag_problems("1.2.0", tmp_path))

    git("init")
    git("commit", "--allow-empty", "--message", "first")
    assert "there is no tag v1.2.0" in found()[0]
    git("tag", "v1.2.0")
    assert found() == []
    (tmp_path / "new").touch()
    assert found() == ["git: not committed: ?? new"]
    git("add", "new")
    git("commit", "--message", "second")
    assert "git: the tag v1.2.0 is on" in found()[0]


# --- dist -----------------------------------------------------------------------------------------


def test_dist_with_source_and_wheel_passes(tmp_path: Path) -> None:
    write_source(tmp_path, TRACKED)
    write_wheel(tmp_path)
    assert dist_problems(tmp_path) == []


def test_empty_dist_lacks_source_and_wheel(tmp_path: Path) -> None:
    assert dist_problems(tmp_path) == [
        "dist: lacks commitlog_engine-1.2.0.tar.gz",
        "dist: has no wheel",
    ]


def test_source_with_missing_or_compiled_files_is_a_problem(tmp_path: Path) -> None:
    write_source(tmp_path, [*TRACKED[1:], "commitlog/_kernel/engine.so"])
    write_wheel(tmp_path)
    missing, compiled = dist_problems(tmp_path)
    assert "lacks LICENSE" in missing
    assert "has the compiled file commitlog/_kernel/engine.so" in compiled


def test_metadata_of_another_version_is_a_problem(tmp_path: Path) -> None:
    write_source(tmp_path, TRACKED, METADATA.replace(b"1.2.0", b"1.1.0"))
    write_wheel(tmp_path)
    (found,) = dist_problems(tmp_path)
    assert "its metadata has Version '1.1.0' and not '1.2.0'" in found


@pytest.mark.parametrize(
    "lacks",
    ["commitlog/_kernel/engine.cpython-311-x86_64-linux-gnu.so", "commitlog/py.typed"],
)
def test_wheel_without_a_file_that_it_needs_is_a_problem(tmp_path: Path, lacks: str) -> None:
    write_source(tmp_path, TRACKED)
    write_wheel(tmp_path, lacks=lacks)
    (found,) = dist_problems(tmp_path)
    assert (
        f"lacks {'the compiled module commitlog/_kernel/engine' if '.so' in lacks else lacks}"
        in (found)
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (WHEEL.replace("manylinux_2_28", "linux"), "run auditwheel"),
        (WHEEL.replace("1.2.0", "1.1.0"), "is not a wheel of 1.2.0"),
        ("notes.txt", "is not part of 1.2.0"),
    ],
)
def test_foreign_file_in_dist_is_a_problem(tmp_path: Path, name: str, problem: str) -> None:
    write_source(tmp_path, TRACKED)
    write_wheel(tmp_path)
    write_wheel(tmp_path, name)
    (found,) = dist_problems(tmp_path)
    assert problem in found


def test_wheel_with_sources_of_c_is_a_problem(tmp_path: Path) -> None:
    write_source(tmp_path, TRACKED)
    write_wheel(tmp_path, WHEEL, "commitlog/_kernel/c/frame.c")
    (found,) = dist_problems(tmp_path)
    assert "has commitlog/_kernel/c/frame.c" in found


def test_complete_release_has_a_wheel_for_each_platform() -> None:
    wheels = [
        Path(f"commitlog_engine-1.2.0-cp311-cp311-{platform}.whl")
        for platform in (
            "manylinux_2_27_x86_64.manylinux_2_28_x86_64",
            "manylinux2014_aarch64",
            "musllinux_1_2_x86_64",
        )
    ]
    assert list(release.missing_wheels(wheels, ["cp311-*"])) == [
        "dist: lacks a wheel for cp311 on musllinux_aarch64"
    ]
    builds = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "cibuildwheel"
    ]["build"]
    assert len(list(release.missing_wheels([], builds))) == 16
