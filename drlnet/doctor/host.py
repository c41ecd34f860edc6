"""What checks look at: files of the system, and what the trials in processes of their own say."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from drlnet.doctor.probe import Probes

# Numbers of linux/capability.h.
CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF = 12, 21, 39


@dataclass(frozen=True)
class Host:
    """This machine as this process sees it. root: the folder that stands for `/`."""

    probes: Probes
    root: Path = Path("/")

    def text(self, path: str) -> str | None:
        """What a file of the system says, stripped; None where it does not exist."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def number(self, path: str) -> int | None:
        """The same as a number; None for a word, such as "max", as well."""
        text = self.text(path)
        return int(text) if text is not None and text.isdecimal() else None

    def entries(self, path: str) -> list[Path]:
        """What lies in a folder of the system, by name; empty where the folder does not exist."""
        folder = self.root / path
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def field(self, path: str, name: str) -> str:
        """The value of the line `name: value`, or empty."""
        for line in (self.text(path) or "").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
        return ""

    def cgroups(self) -> list[str]:
        """The folders of this process's control group (v2) and of those above it."""
        for line in (self.text("proc/self/cgroup") or "").splitlines():
            if line.startswith("0::/"):
                own = Path(line.removeprefix("0::/"))
                return [str(Path("sys/fs/cgroup") / each) for each in (own, *own.parents)]
        return []

    def has_capabilities(self, *numbers: int) -> bool:
        """Whether this process holds all of them."""
        held = int(self.field("proc/self/status", "CapEff") or "0", 16)
        return all(held >> number & 1 for number in numbers)


def user() -> str:
    """The user that this process runs as, in words."""
    number = os.geteuid()
    return "root" if number == 0 else f"user {number}"
