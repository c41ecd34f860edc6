"""Files that hold while the process that wrote them lives: the kernel's lock on them tells.

However that process ends, SIGKILL included, the kernel lets its lock go, and readers ignore the
file any longer.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # a file system that has none


@contextmanager
def live_file(path: Path, values: Mapping[str, Any]) -> Iterator[None]:
    """Keeps these values at `path`, as JSON, while the block runs.

    The file is whole and locked before it has its name. Raises OSError where it cannot be written.
    """
    made = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(made, flags, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, json.dumps(values).encode())
            made.replace(path)
        except OSError:
            made.unlink(missing_ok=True)
            raise
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def read_live(path: Path) -> dict[str, Any] | None:
    """What a process that still lives keeps at `path`; None where that process has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # its writer has it
            return dict(json.load(file))
    return None
