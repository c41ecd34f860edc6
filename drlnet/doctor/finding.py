"""What a check is, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from drlnet.doctor.host import Host

Verdict = Literal["pass", "warn", "fail"]
# run: `drlnet run` over the kernel's sockets. dpdk: the addresses that begin with dpdk. speed: all
# works without it, but slower; such a check never fails.
NeededFor = Literal["run", "dpdk", "speed"]


@dataclass(frozen=True)
class Finding:
    """What a check found, and what to do about it: nothing where all is well."""

    verdict: Verdict
    found: str
    remedy: str = ""


def passed(found: str) -> Finding:
    """All is well."""
    return Finding("pass", found)


def warned(found: str, remedy: str) -> Finding:
    """What the check is about works in part, or slower than it could."""
    return Finding("warn", found, remedy)


def failed(found: str, remedy: str) -> Finding:
    """What the check is about cannot work."""
    return Finding("fail", found, remedy)


@dataclass(frozen=True)
class Check:
    """Its name, what it is needed for, and the function that examines. The function may raise."""

    name: str
    needed_for: NeededFor
    examine: Callable[[Host], Finding]


@dataclass(frozen=True)
class Result:
    """One line of the report."""

    name: str
    needed_for: NeededFor
    verdict: Verdict
    found: str
    remedy: str


def fit_for(what: NeededFor, results: Iterable[Result]) -> bool:
    """Whether nothing that this is needed for has failed."""
    return not any(r.needed_for == what and r.verdict == "fail" for r in results)
