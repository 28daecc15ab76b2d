"""Which way a tailer reads."""

from __future__ import annotations

from typing import Literal

Direction = Literal["forward", "backward"]
DIRECTIONS = ("forward", "backward")
