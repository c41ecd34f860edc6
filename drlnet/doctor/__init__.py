"""What a run needs of this machine: checks that try it, each a function and a line in CHECKS."""

from drlnet.doctor.checks import CHECKS
from drlnet.doctor.examine import examine
from drlnet.doctor.finding import Check, Finding, NeededFor, Result, Verdict, fit_for
from drlnet.doctor.host import Host
from drlnet.doctor.probe import Probes
from drlnet.doctor.report import Report, as_json
from drlnet.doctor.trials import TRIALS

__all__ = [
    "CHECKS",
    "TRIALS",
    "Check",
    "Finding",
    "Host",
    "NeededFor",
    "Probes",
    "Report",
    "Result",
    "Verdict",
    "as_json",
    "examine",
    "fit_for",
]
