"""Turns: reentrant, and taken away from a thread that does not go on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from commitlog.base.turn import Turn


def test_thread_with_the_turn_gets_it_again() -> None:
    turn = Turn(60)
    with turn.taken(), turn.taken():
        pass
    with ThreadPoolExecutor(1) as pool, turn.taken():
        waiting = pool.submit(lambda: turn.taken().__enter__())
        assert not waiting.done()
        turn.forked()  # only to let the thread go on
        turn._patience_s = 0
    waiting.result(timeout=60)


def test_stuck_thread_loses_its_turn_and_others_still_queue() -> None:
    turn = Turn(0.01)
    entered, leave = threading.Event(), threading.Event()

    def stick() -> None:
        with turn.taken():
            entered.set()
            leave.wait(60)

    with ThreadPoolExecutor(2) as pool:
        stuck = pool.submit(stick)
        assert entered.wait(60)
        with turn.taken():
            leave.set()
            stuck.result(timeout=60)  # it releases what it took, not this thread's turn
            entered.clear()
            turn._patience_s = 60
            second = pool.submit(stick)
            assert not entered.wait(0.01)
        assert entered.wait(60)
        second.result(timeout=60)
