"""Screenshots of the page of a run, for the documentation: wide, dark, and on a phone.

Run as ``python -m bench.screenshots [PAGE]``, by default on the page of `make bench`. It needs
Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.headline import HERE

PAGE = HERE.parent / "build" / "bench.html"
IMAGES = HERE.parent / "docs" / "images"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Name, width and height in pixels, whether the reader prefers dark.
SHOTS = (
    ("bench-wide", 1400, 1360, False),
    ("bench-dark", 800, 1360, True),
    ("bench-phone", 390, 1500, False),
)
# A window is never narrower than this; the page is in a frame of the width that is wanted.
_NARROWEST = 500
_LIMIT_S = 120
_STYLE = "border:0;display:block;margin:0 auto;width:{width}px;height:{height}px"
_FRAME = f'<body style="margin:0"><iframe src="{{page}}" style="{_STYLE}">'


def main(arguments: list[str]) -> int:
    """Write the screenshots; return the exit status."""
    page = Path(arguments[0] if arguments else PAGE).resolve()
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        print("screenshots need Chromium (Debian: apt-get install chromium)", file=sys.stderr)
        return 1
    if not page.is_file():
        print(f"there is no page {page}: run `make bench` first, or name one", file=sys.stderr)
        return 1
    for name, width, height, dark in SHOTS:
        with tempfile.TemporaryDirectory() as directory:
            frame, image = Path(directory, "frame.html"), Path(directory, "image.png")
            frame.write_text(_FRAME.format(page=page.as_uri(), width=width, height=height))
            command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            command += [f"--window-size={max(width, _NARROWEST)},{height}", f"--screenshot={image}"]
            command += ["--allow-file-access-from-files", "--virtual-time-budget=9000"]
            command += [f"--blink-settings=preferredColorScheme={int(not dark)}", frame.as_uri()]
            subprocess.run(command, check=True, capture_output=True, timeout=_LIMIT_S)
            shutil.copyfile(image, IMAGES / f"{name}.png")
        print(IMAGES / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
