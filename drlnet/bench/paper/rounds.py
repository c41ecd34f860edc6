"""All groups in turns, round by round; what cannot be measured is named and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from drlnet.bench.cores import Cores, pin_process
from drlnet.bench.paper.access import layout_of
from drlnet.bench.paper.groups import REDIS, Group, Heard, Places, redis_missing, run_group
from drlnet.bench.paper.results import Results
from drlnet.bench.paper.workloads import ALONE, BASE, BATCHES, SHAPES, Workload, variations
from drlnet.bench.rounds import Effort, orders
from drlnet.bench.transport.subjects import BASELINE, Poll, Subject
from drlnet.errors import DrlnetError
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Supervisor

FULL = Effort(calls=5000, budget_s=0.25, warm_up=50)
QUICK = Effort(calls=2000, budget_s=0.12, warm_up=20)
_READY_DEADLINE_S = 60.0
Note = Callable[[str], None]


def groups_of(transports: Sequence[Subject], *, quick: bool, redis: bool = True) -> list[Group]:
    """Which groups compare what. transports: kernel UDP blocking and polled, then devices.

    Every transport gets the base case (in quick, (a) only where it has more); the first device and
    blocking kernel UDP (without a device polled kernel UDP) get the other workloads, too.
    """
    bases = [*transports[:1], *(transports[2:3] or transports[1:2])]
    found = [Group("network", transport, ALONE, ()) for transport in transports]
    for place in ("network", "learner"):
        for transport in transports:
            for workload in variations(quick=quick):
                base = workload == BASE and not (quick and place == "learner")
                if base or transport in bases:
                    batches = BATCHES if _both_batches(workload) else BATCHES[:1]
                    found.append(Group(place, transport, workload, batches))
    for transport in bases[:1] if quick else bases:
        trained = Group("network", transport, BASE, BATCHES[:1], training=True)
        found += [trained, replace(trained, place="learner")]
        if transport.poll != "busy":  # two that spin on one core would only take turns
            found.append(replace(trained, place="learner", crowded=True))
    if redis:
        over_redis = Subject(REDIS, "", "block")
        for workload in variations(quick=quick)[: 1 if quick else 2]:
            found.append(Group("redis", over_redis, workload, BATCHES))
    return found


def _both_batches(workload: Workload) -> bool:
    """Where round trips dominate, the small batch is what shows it."""
    return workload in {BASE, replace(BASE, shape="cartpole")}


def measure_paper(
    stop: Stop,
    groups: Sequence[Group],
    *,
    rounds: int,
    effort: Effort,
    training_s: float,
    note: Note,
    training_rounds: int | None = None,
    places: Places | None = None,
    floors: bool = True,
) -> Results:
    """Measures all groups, a round at a time, and each round the transports' own rates.

    A group that fails is left out from then on, its cause kept; what it had measured counts. When
    stopped, what was measured until then is returned, marked as interrupted.
    """
    places = places or Places(Cores.usable())
    results = Results(places.cores.count)
    left = list(groups)
    missing = redis_missing()
    if missing and any(group.place == "redis" for group in left):
        results.failed[REDIS] = missing
        left = [group for group in left if group.place != "redis"]
    for number, order in enumerate(orders(left, rounds), 1):
        for group in order:
            if group.training and number > (training_rounds or rounds):
                continue
            note(f"round {number} of {rounds}: {group.name}")
            heard = Heard()
            try:
                run_group(stop, group, effort, places, heard, turn=number, training_s=training_s)
            except DrlnetError as error:
                results.failed[group.name] = _why(error)
                note(f"{group.name}: left out: {_why(error)}")
                left.remove(group)
            results.add(group, heard)
            if stop.is_set():
                results.interrupted = True
                return results
        if floors:
            _measure_rates(stop, left, effort, places, results, note)
    results.interrupted = stop.is_set()
    return results


def _why(error: DrlnetError) -> str:
    return f"{error.cause}\n  try: {error.remedy}" if error.remedy else error.cause


def _measure_rates(
    stop: Stop,
    groups: Sequence[Group],
    effort: Effort,
    places: Places,
    results: Results,
    note: Note,
) -> None:
    """Of each transport that had a group: bytes per second without a session or table."""
    transports = {group.transport for group in groups if group.place == "network"}
    for transport in sorted(transports, key=lambda one: one.name):
        if stop.is_set():
            return
        try:
            for size, rate in bare_rates(stop, transport, effort, places).items():
                results.bytes_per_second.setdefault((transport.name, size), []).append(rate)
        except DrlnetError as error:
            results.failed[f"bytes of {transport.name}"] = _why(error)
            note(f"bytes of {transport.name}: {_why(error)}")


def bare_rates(stop: Stop, transport: Subject, effort: Effort, places: Places) -> dict[int, float]:
    """Bytes per second of transfers as long as the base case's batches, by length."""
    spec = SHAPES[BASE.shape].spec()
    sizes = [int(layout_of(spec, batch)["total_bytes"]) for batch in BATCHES]
    rates: dict[int, float] = {}
    with Supervisor(stop) as roles:
        listen = ["bench", "frame-sender", transport.listen, "--poll", transport.poll]
        server = roles.start("frame sender", listen, program=places.server)
        said = roles.wait_for_line(server, "ready", _READY_DEADLINE_S)
        if not said:
            return rates  # stopped before
        pin_process(server.pid, places.cores.server)
        core = places.cores.client
        client = roles.start(
            "frame receiver",
            [
                *("bench", "frame-receiver", transport.connect or said["address"]),
                *("--poll", transport.poll, "--bytes", ",".join(map(str, sizes))),
                *("--calls", str(effort.calls), "--budget-s", str(effort.budget_s)),
                *(() if core is None else ("--core", str(core))),
            ],
            program=places.learner,
        )
        for size in sizes:
            said = roles.wait_for_line(client, f"{size} bytes", _READY_DEADLINE_S)
            if said:
                rates[size] = size / float(np.median(said["us"])) * 1e6
    return rates


def transports_of(subjects: Sequence[Subject]) -> list[Subject]:
    """Kernel UDP blocking and polled, then polled devices, the best local one first."""
    polls: list[Poll] = ["block", "busy"]
    kernel = {subject.poll: subject for subject in subjects if subject.name.startswith(BASELINE)}
    devices = [subject for subject in subjects if not subject.name.startswith(BASELINE)]
    return [*(kernel[poll] for poll in polls if poll in kernel), *devices]
