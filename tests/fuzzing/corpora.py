"""Corpora: the inputs that a fuzzer starts from, and those that once did harm.

A corpus is an archive, `corpus/TARGET.tar.xz`, of a few small inputs. `found/TARGET-NAME` is one
input that did harm before its fault was mended.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
FOUND = HERE / "found"
MOST_BYTES = 48 << 10  # of the inputs of an archive, which is a tenth of that


def inputs(target: str) -> list[bytes]:
    """Return the inputs of a corpus; none if it is new."""
    path = CORPUS / f"{target}.tar.xz"
    if not path.exists():
        return []
    with tarfile.open(path) as archive:
        files = (archive.extractfile(member) for member in archive.getmembers())
        return [file.read() for file in files if file is not None]


def found(target: str) -> list[bytes]:
    """Return the inputs of a target that once did harm."""
    return [path.read_bytes() for path in sorted(FOUND.glob(f"{target}-*"))]


def spread(target: str, folder: Path, seeds: list[bytes]) -> None:
    """Write seeds, corpus and found inputs into a folder, a file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in [*seeds, *inputs(target), *found(target)]:
        (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)


def keep(target: str, folder: Path) -> int:
    """Replace a corpus by the smallest inputs of a folder; return how many these are."""
    kept: list[bytes] = []
    for path in sorted(folder.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
        data = path.read_bytes()
        if sum(map(len, kept)) + len(data) > MOST_BYTES:
            break
        kept.append(data)
    CORPUS.mkdir(exist_ok=True)
    with tarfile.open(CORPUS / f"{target}.tar.xz", "w:xz") as archive:
        for number, data in enumerate(kept):
            member = tarfile.TarInfo(f"{number:04}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return len(kept)
