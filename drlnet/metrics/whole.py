"""Files that are there whole, or as they were before."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that a reader sees the old one or the new one, never a part.

    Raises OSError when it cannot be written; nothing of it is left then. What is there and no file
    (/dev/stdout) is written as it is.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    path = path.resolve()  # a link stays one
    part = path.with_suffix(path.suffix + ".part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        with suppress(OSError):  # it may never have come into being
            part.unlink()
        raise
