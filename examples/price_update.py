"""The message that the object examples exchange."""

from __future__ import annotations

from commitlog import bus


class PriceUpdate(bus.Message, type=0):
    source: bus.int32
    price: bus.int32
    quantity: bus.int32

    def __str__(self) -> str:
        return f"PriceUpdate [source={self.source}, price={self.price}, quantity={self.quantity}]"
