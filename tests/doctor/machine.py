"""Hosts for the tests of the doctor: this machine, or a folder that stands for one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drlnet.doctor import Host, Probes
from drlnet.doctor.probe import TrialFailed


class Answers(Probes):
    """What trials would have said; a trial that is not named has failed."""

    def __init__(self, **answers: Mapping[str, Any]) -> None:
        super().__init__([])
        self.said = answers

    def answer(self, name: str) -> Mapping[str, Any]:
        if name not in self.said:
            raise TrialFailed(f"{name} is not there", f"install {name}")
        return self.said[name]


def this_machine(**answers: Mapping[str, Any]) -> Host:
    return Host(Answers(**answers))


def machine(root: Path, files: Mapping[str, str]) -> Host:
    """One whose /proc and /sys hold these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Host(Answers(), root)
