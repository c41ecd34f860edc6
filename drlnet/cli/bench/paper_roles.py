"""One role of `drlnet bench paper`: for its own processes, and by hand on several machines."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Literal

from drlnet.cli.bench.report import end_if, note_interruption
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drlnet.bench.paper.phases import Appends
    from drlnet.bench.paper.workloads import Workload
    from drlnet.bench.rounds import Effort
    from drlnet.launch.signals import Stop


@dataclass(frozen=True)
class RoleOptions:
    """Its part, as the command line gives it."""

    address: str
    poll: str
    workload: Workload
    layouts: str
    batches: list[int]
    effort: Effort
    slices: int
    floors: bool  # measured by who started it, while it waits for a line
    turn: int
    training_s: float
    core: int | None
    replay_core: int | None
    stay: bool  # when all is measured, until told to end


def play(output: Output, role: Literal["actor", "learner"], options: RoleOptions) -> None:
    """Plays the role to its end, or until stopped."""
    from drlnet.bench.paper.access import pin_this_thread
    from drlnet.bench.paper.groups import TOLD
    from drlnet.launch.signals import Stop

    if options.training_s:  # torch: long to import, longer on a core that others have, too
        import drlnet.bench.paper.training  # noqa: F401
    pin_this_thread(options.core)
    with Stop() as stop:
        if options.address == TOLD:
            with suppress(KeyboardInterrupt):
                options = replace(options, address=_told(stop))
            end_if(stop)
        (_act if role == "actor" else _learn)(output, options, stop)


def _told(stop: Stop) -> str:
    """The next line of standard input. Raises KeyboardInterrupt when stopped before."""
    with stop.interrupts():
        return sys.stdin.readline().strip()


def _act(output: Output, options: RoleOptions, stop: Stop) -> None:
    from drlnet.bench.paper.access import REDIS_SCHEME
    from drlnet.bench.paper.actor import act

    def say(chunks: Sequence[Appends]) -> None:
        output.event("appends", chunks=[vars(chunk) for chunk in chunks])

    if not output.as_json:
        output.note(f"storing at {options.address}; Ctrl-C stops it")
    with suppress(KeyboardInterrupt), stop.interrupts():
        if options.address.startswith(REDIS_SCHEME):
            from drlnet.bench.paper.redis_store import act_on_redis

            act_on_redis(options.address, options.workload, stop, say)
        else:
            act(options.address, options.poll, options.workload, stop, say, output.note)
    end_if(stop)


def _learn(output: Output, options: RoleOptions, stop: Stop) -> None:
    from drlnet.bench.paper.access import REDIS_SCHEME, in_process, over_network
    from drlnet.bench.paper.learner import learn
    from drlnet.bench.paper.phases import FINISHED, Phase

    def ready(address: str) -> None:
        output.event("ready", addresses=[address])
        if not output.as_json:
            output.note(f"ready: listening on {address}")

    measured = False

    def say(phase: Phase) -> None:
        nonlocal measured
        measured |= bool(phase.us)
        output.event("phase", **phase.to_json())
        if not output.as_json and phase.us:
            batch = f" of {phase.batch}" if phase.batch > 1 else ""
            output.note(f"{phase.layout.value}: {phase.op}{batch}: p50 {median(phase.us):.1f} us")

    address, shape, actors = options.address, options.workload.shape, options.workload.actors
    if address.startswith(REDIS_SCHEME):
        from drlnet.bench.paper.redis_store import over_redis

        reached = over_redis(address, shape, actors)
    elif options.layouts == "a":
        reached = in_process(address, options.poll, shape, ready, options.replay_core)
    else:
        paced = options.workload.rate > 0
        reached = over_network(address, options.poll, shape, output.note, paced=paced)
    interrupted = True
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        with stop.interrupts():
            access = stack.enter_context(reached)
            if not output.as_json:
                output.note(f"waiting for {actors} actors")
            access.wait_for_actors(actors)
        learn(
            access, options.batches, options.effort, stop, say,
            turn=options.turn, training_s=options.training_s, slices=options.slices,
            pause=(lambda: _told(stop)) if options.floors else None,
        )  # fmt: skip
        interrupted = stop.is_set()
        output.event(FINISHED)
        if options.stay:
            # Who started us ends the actors first: in layout (a) they would wait for our server.
            stop.wait()
    if interrupted and not options.stay:
        note_interruption(output, measured=measured)
        end_if(stop)
