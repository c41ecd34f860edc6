"""All groups in turns, round by round; what cannot be measured is named and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from drlnet.bench.cores import Cores
from drlnet.bench.paper.groups import REDIS, Group, Heard, Places, redis_missing, run_group
from drlnet.bench.paper.rates import Rates
from drlnet.bench.paper.results import Results
from drlnet.bench.paper.workloads import ALONE, BASE, BATCHES, Workload, variations
from drlnet.bench.rounds import Effort, orders
from drlnet.bench.transport.subjects import BASELINE, Poll, Subject
from drlnet.bench.worker import Stopped
from drlnet.errors import DrlnetError
from drlnet.launch.signals import Stop

# So many calls that all but pings take the time: actors append a few times meanwhile.
FULL = Effort(calls=20_000, budget_s=0.25, warm_up=50)
QUICK = Effort(calls=20_000, budget_s=0.12, warm_up=20)
Note = Callable[[str], None]


def groups_of(transports: Sequence[Subject], *, quick: bool, redis: bool = True) -> list[Group]:
    """Which groups compare what. transports: kernel UDP blocking and polled, then devices.

    Every transport gets the base case (in quick, (a) only where it has more); the first device and
    blocking kernel UDP (without a device polled kernel UDP) get the other workloads, too.
    """
    bases = [*transports[:1], *(transports[2:3] or transports[1:2])]
    found = [Group("network", transport, ALONE, ()) for transport in transports]
    # What is compared stands side by side, (a) behind the (b) and (c) of its transport: seconds
    # apart, the host has seldom moved the cores in between.
    for workload in variations(quick=quick):
        for transport in transports:
            for place in ("network", "learner"):
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
    """Measures all groups, a round at a time, and within each its transport's own rate.

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

    def name_failure(what: str, cause: str) -> None:
        results.failed[what] = cause
        note(f"{what}: {cause}")

    with Rates(stop, places.cores, name_failure) as rates:
        for number, order in enumerate(orders(left, rounds), 1):
            results.distance.begin_round()
            for group in order:
                if group.training and number > (training_rounds or rounds):
                    continue
                note(f"round {number} of {rounds}: {group.name}")
                results.distance.look(places.cores, group.name)
                heard = Heard()
                try:
                    with rates.beside(group) if floors else nullcontext() as rate:
                        run_group(
                            stop, group, effort, places, heard, turn=number,
                            training_s=training_s, rate=rate,
                        )  # fmt: skip
                except Stopped:
                    pass  # as stop says
                except DrlnetError as error:
                    results.failed[group.name] = _why(error)
                    note(f"{group.name}: left out: {_why(error)}")
                    left.remove(group)
                results.add(group, number, heard)
                if stop.is_set():
                    results.interrupted = True
                    return results
    return results


def _why(error: DrlnetError) -> str:
    return f"{error.cause}\n  try: {error.remedy}" if error.remedy else error.cause


def transports_of(subjects: Sequence[Subject]) -> list[Subject]:
    """Kernel UDP blocking and polled, then polled devices, the best local one first."""
    polls: list[Poll] = ["block", "busy"]
    kernel = {subject.poll: subject for subject in subjects if subject.name.startswith(BASELINE)}
    devices = [subject for subject in subjects if not subject.name.startswith(BASELINE)]
    return [*(kernel[poll] for poll in polls if poll in kernel), *devices]
