"""Running checks: their order, one that breaks, one that hangs, what that means for the verdict."""

from __future__ import annotations

import threading

import pytest
from doctor.machine import this_machine

from drlnet.doctor import CHECKS, Check, Finding, Host, Result, examine, fit_for
from drlnet.doctor.finding import NeededFor


def fine(host: Host) -> Finding:
    return Finding("pass", "fine")


def breaks(host: Host) -> Finding:
    raise OSError(5, "Input/output\nerror")


def results(*checks: Check, **settings: float) -> list[Result]:
    return list(examine(this_machine(), checks, **settings))  # type: ignore[arg-type]


def test_results_come_in_the_order_of_the_checks() -> None:
    said = results(Check("a", "run", fine), Check("b", "speed", fine))
    assert [(r.name, r.needed_for, r.verdict) for r in said] == [
        ("a", "run", "pass"),
        ("b", "speed", "pass"),
    ]


@pytest.mark.parametrize(("needed_for", "verdict"), [("run", "fail"), ("speed", "warn")])
def test_a_check_that_breaks_says_so_and_the_others_go_on(
    needed_for: NeededFor, verdict: str, capfd: pytest.CaptureFixture[str]
) -> None:
    broken, other = results(Check("a", needed_for, breaks), Check("b", "run", fine))
    assert (broken.verdict, other.verdict) == (verdict, "pass")
    assert "the check itself broke: OSError" in broken.found
    assert "Input/output error" in broken.found
    assert "--debug" in broken.remedy
    assert capfd.readouterr().err == ""
    list(examine(this_machine(), [Check("a", needed_for, breaks)], debug=True))
    assert "Traceback" in capfd.readouterr().err


def test_a_check_that_hangs_is_given_up() -> None:
    released = threading.Event()

    def hangs(host: Host) -> Finding:
        released.wait(60)
        return fine(host)

    hung, other = results(Check("a", "dpdk", hangs), Check("b", "run", fine), deadline_s=0.2)
    released.set()
    assert (hung.verdict, other.verdict) == ("fail", "pass")
    assert "did not end within 0.2 s" in hung.found


def test_only_what_fails_makes_unfit() -> None:
    said = [
        Result("a", "run", "warn", "", ""),
        Result("b", "dpdk", "fail", "", ""),
        Result("c", "speed", "warn", "", ""),
    ]
    assert fit_for("run", said)
    assert not fit_for("dpdk", said)


def test_checks_have_names_of_their_own_and_lie_together() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    order = [check.needed_for for check in CHECKS]
    assert order == sorted(order, key=["run", "dpdk", "speed"].index)
