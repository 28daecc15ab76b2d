"""What the programs of this folder take alike: where they measure."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def parser_of(module: str, about: str | None) -> argparse.ArgumentParser:
    """Return the parser of ``python -m MODULE``, which takes the directory to measure in."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "directory",
        nargs="?",
        default=ROOT,
        type=Path,
        metavar="DIR",
        help="where to measure [this checkout]",
    )
    parser.add_argument(
        "--memory", action="store_true", help="measure on a file system in memory too"
    )
    return parser
