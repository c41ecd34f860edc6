"""What a killed benchmark leaves behind: the next one knows it by the process's number in its name.

Processes need none of this: the kernel ends them with the one that started them (launch/guard.py).
"""

from __future__ import annotations

import os
import re
from pathlib import Path


def own(tag: str) -> str:
    """How names of this process's things begin, with a letter or a dash to follow."""
    return f"{tag}{os.getpid()}"


def left_behind(folder: Path, tag: str) -> list[Path]:
    """Things of that tag in the folder whose process is no more."""
    there = folder.iterdir() if folder.exists() else ()
    tagged = [(path, re.match(rf"{tag}(\d+)[-a-z]", path.name)) for path in there]
    return [path for path, match in tagged if match and not Path(f"/proc/{match[1]}").exists()]
