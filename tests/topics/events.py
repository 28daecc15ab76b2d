"""Events of about 1 KB, as a shop writes them, for tests and figures of compression."""

from __future__ import annotations

import random

import msgspec

STATUSES = ["new", "paid", "shipped", "returned"]
CITIES = ["Berlin", "Hamburg", "Paris", "London", "Madrid", "Vienna", "Zurich", "Oslo", "Rome"]
FIRST = ["Anna", "Ben", "Clara", "David", "Eva", "Felix", "Greta", "Henry", "Ida", "Jonas"]
LAST = ["Smith", "Meyer", "Schulz", "Brown", "Garcia", "Novak", "Rossi", "Berg"]
GOODS = ["desk lamp", "office chair", "standing desk", "book shelf", "side table", "bed frame"]


class Line(msgspec.Struct):
    sku: str
    name: str
    quantity: int
    unit_price: str
    currency: str = "EUR"


class Event(msgspec.Struct):
    id: int
    event: str
    created_at: str
    customer: dict[str, str]
    shipping_address: dict[str, str]
    items: list[Line]
    payment: dict[str, str]
    source: str
    version: int = 3


def event(number: int, generator: random.Random) -> Event:
    """Return an event with values that differ from one to the next."""
    choice, below = generator.choice, generator.randrange
    first, last = choice(FIRST), choice(LAST)
    return Event(
        1_000_000 + number,
        f"order.{choice(STATUSES)}",
        f"2026-05-{below(1, 29):02d}T{below(24):02d}:{below(60):02d}:{below(60):02d}."
        f"{below(1000):03d}Z",
        {
            "id": f"{below(10**6)}",
            "first_name": first,
            "last_name": last,
            "email": f"{first.lower()}.{last.lower()}{below(100)}@example.org",
            "language": choice(["de", "en", "fr"]),
        },
        {
            "street": f"{choice(LAST)} Street {below(200)}",
            "city": choice(CITIES),
            "postal_code": f"{below(10**5):05d}",
            "country": choice(["DE", "GB", "FR"]),
        },
        [
            Line(
                f"SKU-{below(10**5):05d}",
                choice(GOODS),
                below(1, 9),
                f"{below(100, 99999) / 100:.2f}",
            )
            for _ in range(below(5, 8))
        ],
        {
            "method": choice(["card", "invoice", "transfer"]),
            "status": choice(["authorized", "captured"]),
            "transaction": f"{generator.getrandbits(64):016x}",
        },
        choice(["web", "app", "store"]),
    )


def events(count: int, seed: int = 1) -> list[Event]:
    """Return events of about 1 KB of JSON each."""
    generator = random.Random(seed)
    return [event(number, generator) for number in range(count)]
