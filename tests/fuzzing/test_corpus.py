"""Each input of the corpora, and each that once did harm, does none today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzzing import corpora, kernel, readers


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> kernel.Programs:
    return kernel.replayers(tmp_path_factory.mktemp("fuzzing"))


@pytest.mark.parametrize("target", kernel.TARGETS)
def test_known_inputs_do_the_kernel_no_harm(
    target: str, programs: kernel.Programs, tmp_path: Path
) -> None:
    data = [*corpora.inputs(target), *corpora.found(target), b"", *kernel.seeds(target)]
    done = kernel.replay(programs.of(target), data, tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{len(data)} inputs\n"), done.stderr


def test_known_inputs_do_the_readers_no_harm(tmp_path: Path) -> None:
    data = [*corpora.inputs("readers"), *corpora.found("readers")]
    with readers.Readers(tmp_path) as target:
        for each in [*data, b"", *target.seeds]:
            target.take(each)
