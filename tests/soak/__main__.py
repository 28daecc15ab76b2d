"""Run a mixed load in real processes for long, and check that nothing grows and nothing is lost.

python -m tests.soak --minutes 60 --json build/soak.json
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.figures import written
from tests.soak.samples import growth_of
from tests.soak.world import World

_SAMPLES = 20  # at least, in a run of less than so many minutes
_KILL_S = 5.0


def soak(world: World, duration_s: float, every_s: float) -> list[dict[str, float]]:
    """Run for so long, and for the time that samples and promotions take besides; every few seconds
    kill something and prune the copies, and promote after each sample.
    """
    samples = []
    began_s = time.monotonic()
    kill_s = began_s
    for number in range(1, round(duration_s / every_s) + 1):
        due_s = time.monotonic() + every_s  # on a slow machine, too, there are kills in between
        while (now_s := time.monotonic()) < due_s:
            time.sleep(min(due_s - now_s, 0.5))
            world.check_alive()
            if time.monotonic() - kill_s > _KILL_S:
                kill_s = time.monotonic()
                world.kill_beside()
                world.prune_copies()
        sample = world.figures() | {"time_s": round(time.monotonic() - began_s, 1)}
        samples.append(sample)
        print(
            f"{sample['time_s']:.0f} s: {world.kills} kills, {world.promotions} promotions, "
            f"{sum(v for k, v in sample.items() if k.endswith('descriptors')):.0f} descriptors, "
            f"{sum(v for k, v in sample.items() if k.endswith('rss_bytes')) / 1e6:.0f} MB",
            flush=True,
        )
        world.promote()
        world.kill_shm()
        if number % 5 == 0:
            world.kill_readers()
    return samples


def growths(samples: list[dict[str, float]]) -> dict[str, Any]:
    """Return the verdict on each figure."""
    times_s = [sample["time_s"] for sample in samples]
    return {
        name: growth_of(name, times_s, [sample[name] for sample in samples])
        for name in samples[0]
        if name != "time_s"
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--folder", type=Path, help="an empty directory on the disk to use")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="soak-"))
    duration_s = 60 * given.minutes
    world = World(folder)
    try:
        samples = soak(world, duration_s, min(60.0, duration_s / _SAMPLES))
        records = world.end()
    finally:
        world.close()
    verdicts = growths(samples)
    growing = {name: found for name, found in verdicts.items() if not found.is_flat}
    for name, found in growing.items():
        print(f"{name} grows by {found.grows:,.0f}, and may by {found.may:,.0f}")
    print(
        f"{sum(records.values()):,} records accounted for, {world.kills} kills, "
        f"{world.promotions} promotions; {len(verdicts) - len(growing)} of {len(verdicts)} "
        "figures are flat"
    )
    if given.json is not None:
        figures = {
            "minutes": given.minutes,
            "records": records,
            "lost": 0,
            "kills": world.kills,
            "promotions": world.promotions,
            "growths": {
                name: found._asdict() | {"is_flat": found.is_flat}
                for name, found in verdicts.items()
            },
            "samples": samples,
        }
        written(given.json, "soak", figures)
    shutil.rmtree(folder)
    sys.exit(bool(growing))


if __name__ == "__main__":
    main()
