"""Runs checks. One that breaks or hangs says so, and the others go on."""

from __future__ import annotations

import queue
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator

from drlnet.doctor.finding import Check, Finding, Result, failed, warned
from drlnet.doctor.host import Host
from drlnet.doctor.probe import DEADLINE_S

# Above what a trial may take. A folder on a server that is gone blocks without end.
CHECK_DEADLINE_S = DEADLINE_S + 10.0


def examine(
    host: Host,
    checks: Iterable[Check],
    *,
    debug: bool = False,
    deadline_s: float = CHECK_DEADLINE_S,
) -> Iterator[Result]:
    """The results in the order of the checks, each as soon as it is there."""
    for check in checks:
        finding = _within(deadline_s, check, host, debug)
        yield Result(check.name, check.needed_for, finding.verdict, finding.found, finding.remedy)


def _within(deadline_s: float, check: Check, host: Host, debug: bool) -> Finding:
    said: queue.SimpleQueue[Finding | Exception] = queue.SimpleQueue()

    def look() -> None:
        try:
            said.put(check.examine(host))
        except Exception as error:
            said.put(error)

    # Not joined: a thread that hangs in the kernel cannot be woken, and ends with the process.
    threading.Thread(target=look, name=f"check {check.name}", daemon=True).start()
    try:
        finding = said.get(timeout=deadline_s)
    except queue.Empty:
        return _broken(check, f"the check did not end within {deadline_s:g} s")
    if isinstance(finding, Finding):
        return finding
    if debug:
        traceback.print_exception(finding, file=sys.stderr)
    cause = " ".join(str(finding).split())
    return _broken(check, f"the check itself broke: {type(finding).__name__}: {cause}")


def _broken(check: Check, found: str) -> Finding:
    # What could not be looked at cannot be vouched for.
    verdict = warned if check.needed_for == "speed" else failed
    return verdict(found, "`drlnet doctor --debug` shows where; the rest of the report holds")
