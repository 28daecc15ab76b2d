"""Named steps at which a test of faults stops, fails or kills the process.

To add one, call `failpoint` right after the step, with a name that says what has been done::

    os.rename(temporary, name)
    failpoint("note written")

Put one after each change of a file or of shared state that a crash may follow; none on the path of
a record. `tests/steps.py` kills a child at each failpoint in turn, so a new one is tested without
a change of the tests. A test that wants one step compares the name.
"""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None  # set by tests alone


def failpoint(name: str) -> None:
    """Call the hook, if a test has set one, with the name of the step that was just done."""
    if hook is not None:
        hook(name)
