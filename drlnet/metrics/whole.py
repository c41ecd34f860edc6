"""Writes files atomically: a reader sees the new content whole, or the old."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that a reader sees the old one or the new one, never a part.

    Raises OSError when it cannot be written; nothing of it is left then. What is there and no file
    (/dev/stdout, wherever it goes) is written as it is.
    """
    if path.exists() and (path.is_relative_to("/dev") or not path.is_file()):
        path.write_bytes(content)
        return
    path = Path(os.path.realpath(path))  # a link stays one
    part = path.with_suffix(path.suffix + ".part")
    try:
        part.write_bytes(content)
        with suppress(FileNotFoundError):
            part.chmod(path.stat().st_mode)
        part.replace(path)
    except OSError:
        with suppress(OSError):  # it may never have come into being
            part.unlink()
        raise
