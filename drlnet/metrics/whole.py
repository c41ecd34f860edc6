"""Writes files atomically: a reader sees the new content whole, or the old."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write so that a reader sees the old one or, after the block, the new one.

    Where the block raises, or OSError says that it cannot be written, the old one stays and nothing
    of the new one is left. What is there and no file (/dev/stdout, wherever it goes) is written as
    it is.
    """
    if path.exists() and (path.is_relative_to("/dev") or not path.is_file()):
        with path.open("wb") as file:
            yield file
        return
    path = Path(os.path.realpath(path))  # a link stays one
    part = path.with_suffix(path.suffix + ".part")
    try:
        with part.open("wb") as file:
            yield file
        with suppress(FileNotFoundError):
            part.chmod(path.stat().st_mode)
        part.replace(path)
    except BaseException:  # Ctrl-C, too
        with suppress(OSError):  # it may never have come into being
            part.unlink()
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file as whole_file() does. Raises OSError."""
    with whole_file(path) as file:
        file.write(content)
