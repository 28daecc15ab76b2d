"""Messages of the bus tests."""

from __future__ import annotations

from typing import Annotated

from commitlog import bus


class PriceUpdate(bus.Message, type=0):
    source: bus.int32
    price: bus.int32
    quantity: bus.int32


class Trade(bus.Message, type=1):
    price: bus.float64
    symbol: Annotated[bytes, 8]
