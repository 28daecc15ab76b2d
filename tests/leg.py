"""Run a leg of `make faults` and note how it ended; the last call prints them all.

python -m tests.leg FOLDER NAME COMMAND...
python -m tests.leg FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path


def run(notes: Path, name: str, command: list[str]) -> None:
    """Run a leg; the next one runs whether it fails or not."""
    print(f"--- {name}: {' '.join(command)}", flush=True)
    began_s = time.monotonic()
    status = subprocess.run(command, check=False).returncode
    seconds = time.monotonic() - began_s
    print(f"--- {name}: {_verdict(status)} after {seconds:.0f} s", flush=True)
    with notes.open("a") as file:
        file.write(json.dumps({"leg": name, "status": status, "seconds": round(seconds, 1)}) + "\n")


def total(notes: Path) -> bool:
    """Print how each leg ended; return whether all of them passed."""
    legs = [json.loads(line) for line in notes.read_text().splitlines()]
    for leg in legs:
        print(f"{leg['leg']:<20}{leg['seconds']:>8.0f} s  {_verdict(leg['status'])}")
    failed = [leg["leg"] for leg in legs if leg["status"] != 0]
    seconds = sum(leg["seconds"] for leg in legs)
    print(f"{len(legs)} legs in {seconds:.0f} s, failed: {', '.join(failed) or 'none'}")
    return not failed


def _verdict(status: int) -> str:
    return "passed" if status == 0 else f"FAILED with status {status}"


def main() -> None:
    notes = Path(sys.argv[1], "legs.jsonl")
    if len(sys.argv) > 2:
        notes.parent.mkdir(parents=True, exist_ok=True)
        run(notes, sys.argv[2], sys.argv[3:])
    else:
        sys.exit(not total(notes))


if __name__ == "__main__":
    main()
