"""Names of tailers and topics, which are file names, too."""

from __future__ import annotations

import os
import re
import sys

from commitlog.errors import InvalidOptionError

NAME_LONGEST = 128  # bytes of UTF-8
_NAME = re.compile(r"[\w@:+][\w@:+.\-]*")


def check_name(name: object) -> str:
    """Check the name of a tailer or a topic, and return it as a plain str."""
    if not isinstance(name, str):
        raise InvalidOptionError(f"name must be a str, not {type(name).__name__}")
    if (
        not _NAME.fullmatch(name)
        or not name.isprintable()
        or len(name.encode(errors="replace")) > NAME_LONGEST
    ):
        raise InvalidOptionError(
            f"name must be 1 to {NAME_LONGEST} bytes of letters, digits and _ @ : + . -, and must "
            f"not begin with . or -: {name!r} is invalid"
        )
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise InvalidOptionError(
            f"name {name!a} cannot be a file name in the encoding {sys.getfilesystemencoding()} of "
            "this process: use ASCII, or set a UTF-8 locale such as LC_ALL=C.UTF-8"
        ) from None
    return str(name)  # the kernel takes no subclass
