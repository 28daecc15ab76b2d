"""Which rights the credentials of a store lack: found when it is opened, and not an hour later."""

from __future__ import annotations

import logging
from collections.abc import Callable

from commitlog.base.failpoint import failpoint
from commitlog.errors import CommitLogError, IOFailureError
from commitlog.stores.object_target import ObjectTarget
from commitlog.stores.target import Target

_logger = logging.getLogger("commitlog.store")
_PROBE = ".rights"  # no object of a store begins with a dot
_NAMES = {
    "list": "list objects (s3:ListBucket)",
    "create": "create objects (s3:PutObject)",
    "read": "read objects (s3:GetObject)",
    "delete": "delete objects (s3:DeleteObject)",
}


def check_rights(target: Target) -> None:
    """Raise `IOFailureError` if the credentials lack a right without which nothing can be stored.

    Without the right to delete, the store grows: that is logged.
    """
    if not isinstance(target, ObjectTarget):
        return  # each put to a directory meets the rights at once
    missing = _missing(target)
    target.requests += len(_NAMES)
    needed = [_NAMES[right] for right in missing if right != "delete"]
    if needed:
        raise IOFailureError(
            f"the credentials lack the right to {', and to '.join(needed)}: grant it, see "
            "docs/stores.md",
            path=target.name,
        )
    if missing:
        _logger.warning(
            "%s: the credentials lack the right to %s, so objects that are not needed stay, and "
            "the store grows",
            target.name,
            _NAMES["delete"],
        )


def _missing(target: ObjectTarget) -> list[str]:
    once = target.single_try()

    def read() -> None:
        with once.open(_PROBE) as file:
            file.read(1)

    probes: dict[str, Callable[[], object]] = {
        "list": once.names,
        "create": lambda: once.put(_PROBE, lambda file: None, replace=False),
        "read": read,
        "delete": lambda: once.delete([_PROBE]),
    }
    missing = []
    for right, probe in probes.items():
        try:
            probe()
            failpoint("right checked")
        except PermissionError:
            missing.append(right)
        except (OSError, CommitLogError) as error:
            # Such as a store that is out of reach: the next request says so.
            _logger.debug("%s: the right to %s is not checked: %s", target.name, right, error)
    return missing
