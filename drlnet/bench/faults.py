"""Faults of a real run: its processes are killed and stopped at random moments, and it goes on.

The run is `drlnet run` with a replay that it keeps. Each append is on disk before it is
acknowledged (server.durability = 0), so that no count of the server's may ever go back. The next
fault waits until the run is back: the server counts more steps of environments, and the learner
more of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from drlnet.bench.processes import Stopped
from drlnet.bench.records import Records
from drlnet.errors import DrlnetError, RoleFailed
from drlnet.launch.process import Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Supervisor
from drlnet.metrics import RunFolder
from drlnet.metrics.usage import children_of
from drlnet.roles.saved_state import damage_of

KILL, STOP = "kill", "stop"
_COMMANDS = {"server": "serve", "learner": "learn", "evaluator": "learn", "actor": "actor"}
_RESTARTED = {**{role: role for role in _COMMANDS}, "evaluator": "learner"}  # with which it comes
_BACK_S, _END_S = 180.0, 180.0  # deadlines
_LOOK_S = 0.1
_MOST_STOPPED_S = 10.0
_BETWEEN_S = 2.0  # the mean, of an exponential distribution
# Each process may be killed as often as it comes back.
_SETTINGS = {
    "server.durability": 0,
    "run.actor_restarts": 1_000_000,
    "run.learner_restarts": 1_000_000,
    "run.goal": "none",
    "run.max_seconds": "none",
    "learner.save_period_s": 1,
    "learner.report_interval_s": 0.5,
}


@dataclass(frozen=True)
class Fault:
    """A role's process that was killed, or stopped for a while.

    at_s: since the run began to learn. back_s: until the run was back, from the kill or from the
    end of the stop on; None where it did not come back.
    """

    suite: str
    subject: str
    workload: str
    op: str
    at_s: float
    stopped_s: float
    back_s: float | None

    def to_dict(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


@dataclass
class _Run:
    """`drlnet run`, and how far it has come by its own record."""

    stop: Stop
    group: Supervisor
    process: Process
    folder: RunFolder
    processes: Mapping[str, int] = field(default_factory=dict)  # by role; at least one

    def rest(self, seconds: float) -> None:
        """Lets it run on. Raises Stopped, RoleFailed where it has ended."""
        end_s = time.monotonic() + seconds
        while (left := end_s - time.monotonic()) > 0:
            self.group.wait(min(left, _LOOK_S))
            if self.stop.is_set():
                raise Stopped
            if self.process.returncode is not None:
                raise self.process.failure()

    def counts(self) -> tuple[int, int, float]:
        """Environment steps that the server has counted; the learner's steps, and when it said so,
        in seconds since the epoch.
        """
        if not self.folder.metrics_path.is_file():
            return 0, 0, 0.0
        server, learner = (self.folder.last_reading(role) for role in ("server", "learner"))
        return env_steps(server), learner.get("learner_steps", 0), learner.get("time", 0.0)

    def wait_until_back(self) -> float | None:
        """Seconds until both have gone on; None: not before the deadline."""
        begun_s, since = time.monotonic(), time.time()
        before, _, _ = self.counts()
        first: int | None = None  # of the learner's steps behind the fault
        while (waited_s := time.monotonic() - begun_s) < _BACK_S:
            counted, learned, said = self.counts()
            if said > since:
                first = learned if first is None else first
                if counted > before and learned > first and self._is_whole():
                    return waited_s
            self.rest(_LOOK_S)
        return None

    def _is_whole(self) -> bool:
        counts = {role: len(self.pids(role)) for role in _COMMANDS}
        return all(count >= self.processes.get(role, 1) for role, count in counts.items())

    def pids(self, role: str) -> list[int]:
        """The processes of that role; the learner has forked the evaluator."""
        parents = self.pids("learner") if role == "evaluator" else [self.process.pid]
        found = [pid for parent in parents for pid in children_of(parent)]
        return [pid for pid in found if _COMMANDS[role] in _words(pid)]

    def end(self) -> Mapping[str, Any]:
        """Its result, after Ctrl-C; {} where it has none in time."""
        self.process.signal(signal.SIGINT)
        self.group.deaf()
        end_s = time.monotonic() + _END_S
        while self.process.returncode is None and time.monotonic() < end_s:
            self.group.wait(_LOOK_S)
        told = self.process.last_object
        return told if "eval_return_mean" in told else {}


def env_steps(reading: Mapping[str, Any]) -> int:
    """Steps of environments that a server's reading counts, over its tables."""
    names = (name for name in reading if name.startswith("table.") and name.endswith(".env_steps"))
    return sum(int(reading[name]) for name in names)


def _words(pid: int) -> list[str]:
    with suppress(OSError):  # it has ended meanwhile
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
    return []


def measure_faults(
    stop: Stop,
    env: str,
    *,
    faults: int,
    seed: int,
    sets: Sequence[str] = (),
    note: Callable[[str], None] = lambda line: None,
) -> Records[Fault]:
    """A record of each fault; `more` has what the run came to, and "lost", what was not kept.

    seed: of which process, what, and when. sets: settings of the run, as --set has them. The run's
    folder is kept where something was lost, or it failed before a fault was over. Stops early when
    told to.
    """
    path = Path(tempfile.mkdtemp(prefix="drlnet-faults-"))
    given = [f"{key}={value}" for key, value in _SETTINGS.items()] + list(sets)
    words = [word for one in given for word in ("--set", one)]
    records: Records[Fault] = Records(more={"seed": seed, "lost": [], "interrupted": False})
    lost: list[str] = records.more["lost"]
    with Supervisor(stop) as group:
        words += ["--set", f"run.folder={path / 'run'}"]
        args = ["run", env, "--json", "--keep-replay", *words]
        run = _Run(stop, group, group.start("run", args), RunFolder(path / "run"))
        try:
            for fault in _faults(run, env, faults, Random(seed)):
                records.records.append(fault)
                note(_line(len(records.records), faults, fault))
                if fault.back_s is None:
                    lost.append(f"not back {_BACK_S:g} s after {fault.op} of the {fault.subject}")
                    break
        except Stopped:
            records.more["interrupted"] = True
        except DrlnetError as error:
            if not records.records:
                note(f"its folder is kept: {path}")
                raise
            lost.append(error.cause)
        result = run.end()
    if result:
        records.more["result"] = dict(result)
        if not records.more["interrupted"]:  # else a fault was maybe under way, and has no record
            lost += _miscounted(result, records.records)
    elif records.records:
        lost.append(f"the run was told to end, and {run.process.ending}, without a result")
    if records.records:
        lost += _gone_back(run.folder) + _damaged(run.folder)
    if lost:
        records.more["folder"] = str(path)
    else:
        shutil.rmtree(path)
    return records


def _faults(run: _Run, env: str, faults: int, random: Random) -> Iterator[Fault]:
    if run.wait_until_back() is None:
        raise RoleFailed(f"no learning within {_BACK_S:g} s", "see that `drlnet run` does here")
    began_s = time.monotonic()
    run.processes = {role: len(run.pids(role)) for role in _COMMANDS}
    for _ in range(faults):
        run.rest(random.expovariate(1 / _BETWEEN_S))
        role, op = random.choice(list(_COMMANDS)), random.choice((KILL, STOP))
        stopped_s = random.uniform(0.0, _MOST_STOPPED_S) if op == STOP else 0.0
        if not (pids := run.pids(role)):
            raise RoleFailed(f"the {role} is gone, and was not killed", "see the run's logs")
        pid = random.choice(pids)
        at_s = time.monotonic() - began_s
        if op == KILL:
            os.kill(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGSTOP)
            try:
                run.rest(stopped_s)
            finally:
                with suppress(ProcessLookupError):  # the run has ended
                    os.kill(pid, signal.SIGCONT)
        yield Fault("faults", role, env, op, at_s, stopped_s, run.wait_until_back())


def _line(number: int, faults: int, fault: Fault) -> str:
    what = "killed" if fault.op == KILL else f"stopped for {fault.stopped_s:.1f} s"
    back = "not back" if fault.back_s is None else f"back after {fault.back_s:.1f} s"
    return f"{number} of {faults}: {fault.subject} {what} at {fault.at_s:.0f} s: {back}"


def _miscounted(result: Mapping[str, Any], faults: Sequence[Fault]) -> list[str]:
    """Roles whose restarts the run counted otherwise than they were killed."""
    killed = Counter(_RESTARTED[fault.subject] for fault in faults if fault.op == KILL)
    return [
        f"{killed[role]} kills of the {role}, and {result[f'{role}_restarts']} restarts"
        for role in dict.fromkeys(_RESTARTED.values())
        if result[f"{role}_restarts"] != killed[role]
    ]


def _damaged(folder: RunFolder) -> list[str]:
    """What of the replay that was kept cannot be read."""
    try:
        return damage_of(folder.replay_path)
    except DrlnetError as error:
        return [error.cause]


def _gone_back(folder: RunFolder) -> list[str]:
    """Where the server counted fewer steps than it had before."""
    counted = [env_steps(one) for one in folder.readings() if one["role"] == "server"]
    return [
        f"{before} steps counted, and {after} later"
        for before, after in pairwise(counted)
        if after < before
    ]
