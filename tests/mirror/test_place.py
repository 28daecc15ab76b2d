"""Where a mirror goes on."""

from __future__ import annotations

import pytest

from commitlog.errors import MirrorError
from commitlog.mirror import Repeats
from commitlog.mirror.place import Place, digest_of, resume_position

LOG = "5e" * 16
DIGEST = digest_of(17, b"value")
PLACE = Place(LOG, 5000, 4968, DIGEST)


def test_place_is_read_from_the_metadata_of_a_group() -> None:
    assert Place.parse(5000, PLACE.metadata()) == PLACE
    assert Place.parse(-1001, "") is None


@pytest.mark.parametrize("metadata", [None, "", "x", "commitlog-place a b c", "commitlog"])
def test_offset_of_another_program_is_refused(metadata: str | None) -> None:
    with pytest.raises(MirrorError, match="of another program"):
        Place.parse(5000, metadata)


@pytest.mark.parametrize(
    ("place", "tailer", "found", "position"),
    [
        (None, 4096, None, 4096),  # new, or the broker has forgotten the group
        (PLACE, 4096, DIGEST, 5000),  # killed between the transaction and the tailer; a copy
        (PLACE, 6000, DIGEST, 6000),  # the tailer was moved past a record
        (PLACE, 4096, None, 5000),  # retention has deleted the last record
    ],
)
def test_mirror_goes_on_at_the_later_of_place_and_tailer(
    place: Place | None, tailer: int, found: str | None, position: int
) -> None:
    assert resume_position(place, tailer, LOG, 9000, found) == position


@pytest.mark.parametrize(
    ("log", "end", "found", "said"),
    [
        ("00" * 16, 9000, DIGEST, "that of log"),
        (LOG, 4992, DIGEST, "this log ends at 4992"),
        (LOG, 9000, digest_of(17, b"other"), "another record"),
        (LOG, 9000, digest_of(18, b"value"), "another record"),
    ],
)
def test_log_that_the_broker_does_not_have_is_refused(
    log: str, end: int, found: str, said: str
) -> None:
    with pytest.raises(MirrorError, match=said):
        resume_position(PLACE, 4096, log, end, found)


def test_repeats_are_found_by_log_and_partition() -> None:
    def sent(log: bytes, position: int) -> list[tuple[str, bytes | None]]:
        return [("commitlog-log", log), ("commitlog-position", b"%d" % position)]

    repeats = Repeats()
    assert [repeats.has(0, sent(b"a", at)) for at in (1, 2, 3)] == [False] * 3
    assert [repeats.has(0, sent(b"a", at)) for at in (2, 3, 4)] == [True, True, False]
    assert not repeats.has(1, sent(b"a", 2))
    assert not repeats.has(0, sent(b"b", 2))
    assert not repeats.has(0, None)
    assert not repeats.has(0, [("commitlog-log", b"a"), ("commitlog-position", b"x")])
