"""Refusals: what a client may try again, and what it may not."""

from __future__ import annotations

import pytest

from commitlog.errors import ClosedError, CommitLogError, IOFailureError, PositionError
from commitlog.network.remote import wire
from commitlog.network.remote.wire import RefusedError


@pytest.mark.parametrize("error", [PositionError("gone"), RefusedError("gone")])
def test_error_of_a_request_refuses_it_for_good(error: Exception) -> None:
    with pytest.raises(RefusedError, match="gone") as caught:
        wire.answer_of(wire.refusal(error), "a")
    assert not caught.value.by_token


def test_unknown_token_is_refused_as_such() -> None:
    with pytest.raises(RefusedError) as caught:
        wire.answer_of(wire.refusal(RefusedError("gone", by_token=True)), "a")
    assert caught.value.by_token


@pytest.mark.parametrize(
    "error", [ClosedError("later"), IOFailureError("later"), RuntimeError("later")]
)
def test_closed_log_and_busy_server_may_be_asked_again(error: Exception) -> None:
    with pytest.raises(ConnectionError, match="later") as caught:
        wire.answer_of(wire.refusal(error), "a")
    assert not isinstance(caught.value, CommitLogError)
