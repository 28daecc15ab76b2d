"""Take the pictures of docs/images: the site, the page of a benchmark run, and `commitlog top`.

    python docs/site/screenshots.py [PAGE]

It needs Chromium, the site in build/site (`make docs`), and the page of a run: PAGE, or that of
`make bench`. Without a page, its pictures stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from commitlog.tools.cli.dashboard import Dashboard
from commitlog.watching import LogWatch

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
REPORT = ROOT / "build" / "bench.html"
IMAGES = ROOT / "docs" / "images"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Name, page, width and height in pixels, whether the reader prefers dark.
SITE_SHOTS = (
    ("site-wide", "index.html", (1400, 1000), False),
    ("site-dark", "index.html", (1400, 1000), True),
    ("site-phone", "index.html", (390, 1000), False),
    ("reference-wide", "api/reading.html", (1400, 1000), False),
    ("reference-dark", "api/reading.html", (1400, 1000), True),
    ("reference-phone", "api/reading.html", (390, 1000), False),
)
REPORT_SHOTS = (
    ("bench-wide", (1400, 1360), False),
    ("bench-dark", (800, 1360), True),
    ("bench-phone", (390, 1500), False),
)
TOP_SHOTS = (("top", (80, 24)), ("top-small", (40, 12)))
# What `top` shows: appends in waves, and two tailers, one of them behind.
PROGRAM = """
import time
import commitlog

with commitlog.open("orders", segment_size="8MiB") as log:
    audit, billing = log.tailer("audit", required=True), log.tailer("billing")
    for wave in range(1_000_000):
        log.append_many([b"x" * 480] * (20 + wave // 40 % 4 * 10))
        if wave == 0:
            print(flush=True)
        billing.read_batch()
        if wave % 50 == 0:
            audit.read_batch(500)
        time.sleep(0.01)
"""
_COLORS = 128  # of a picture's palette
_NARROWEST = 500  # pixels: a window is never narrower, so a page is in a frame of its width
_FRAME = (
    '<body style="margin:0"><iframe src="{page}" style="border:0;display:block;margin:0 auto;'
    'width:{width}px;height:{height}px">'
)
_LIMIT_S = 120
_LOOKS = 40  # of `top`, before its picture is taken
_LOOK_S = 0.5


def shoot(browser: str, page: Path, name: str, size: tuple[int, int], *, dark: bool) -> None:
    """Write the picture of a page as PNG with a small palette."""
    width, height = size
    image = IMAGES / f"{name}.png"
    with tempfile.TemporaryDirectory() as directory:
        frame, taken = Path(directory, "frame.html"), Path(directory, "image.png")
        frame.write_text(_FRAME.format(page=page.as_uri(), width=width, height=height))
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--window-size={max(width, _NARROWEST)},{height}", f"--screenshot={taken}"]
        command += ["--allow-file-access-from-files", "--virtual-time-budget=9000"]
        command += [f"--blink-settings=preferredColorScheme={int(not dark)}", frame.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=_LIMIT_S)
        margin = max(_NARROWEST - width, 0) // 2
        picture = Image.open(taken).convert("RGB").crop((margin, 0, margin + width, height))
        picture.quantize(_COLORS).save(image, optimize=True)
    print(image)


async def picture_of_top(size: tuple[int, int]) -> str:
    """Return the picture of `commitlog top` on a terminal of this size, as SVG."""
    with LogWatch("orders") as watch:
        dashboard = Dashboard(watch, _LOOK_S)
        async with dashboard.run_test(size=size) as pilot:
            await pilot.pause(_LOOKS * _LOOK_S)
            return dashboard.export_screenshot(title="commitlog top orders", simplify=True)


def take_top() -> None:
    """Write the pictures of `commitlog top` beside a program that appends and reads."""
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        command = [sys.executable, "-c", PROGRAM]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            program.stdout.readline()
            try:
                for name, size in TOP_SHOTS:
                    lines = asyncio.run(picture_of_top(size)).splitlines()
                    text = "\n".join(line.rstrip() for line in lines) + "\n"
                    # The font is that of the reader: a page loads nothing from elsewhere.
                    text = re.sub(r"@font-face \{.*?\}\s*", "", text, flags=re.DOTALL)
                    (IMAGES / f"{name}.svg").write_text(text, encoding="utf-8")
                    print(IMAGES / f"{name}.svg")
            finally:
                program.kill()


def main(arguments: list[str]) -> int:
    """Take all pictures; return the exit status."""
    report = Path(arguments[0]).resolve() if arguments else REPORT
    browser = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if browser is None:
        print("screenshots need Chromium (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    for path, target in ((SITE / "index.html", "make docs"), (report, "make bench")):
        if not path.is_file() and (path != report or arguments):
            print(f"there is no page {path}: run `{target}` first", file=sys.stderr)
            return 1
    for name, page, size, dark in SITE_SHOTS:
        shoot(browser, SITE / page, name, size, dark=dark)
    if report.is_file():
        for name, size, dark in REPORT_SHOTS:
            shoot(browser, report, name, size, dark=dark)
    take_top()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
