"""`drlnet bench distribution`, `faults`, `learner`, `turns`, `watch`: of one question each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TextIO

from drlnet.cli.bench.command import ROUNDS, Found, Measure, Names, ToFile, names, option
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.bench.distribution import Distance
    from drlnet.bench.faults import Fault
    from drlnet.bench.records import Record, Records
    from drlnet.launch.signals import Stop


@dataclass(frozen=True)
class Distribution(ToFile):
    """How far AMPER's draws are from PER's, over its groups and scale.

    KL divergence and largest ratio, for priorities that are log-normal and
    exponential.
    """

    batches: int = option(2000, "candidate sets, of 512 draws each", min=1)
    items: int = option(4096, "in the table", min=64)

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench.distribution import measure_distances

        def report(found: Distance) -> None:
            options = ", ".join(f"{name} {value:g}" for name, value in found.options.items())
            output.note(
                f"{found.workload}, {found.subject} {options}: KL {found.kl_nats:.5f} nats, "
                f"frequencies {found.least_frequency:.3f} to {found.most_frequency:.3f} of PER's"
            )

        return lambda stop: Found(
            measure_distances(stop, report, items=self.items, batches=self.batches)
        )


@dataclass(frozen=True)
class Learner(ToFile):
    """Learner steps per second from a server, and on a batch that is here already.

    Another process appends at the rate that the table's limiter allows, 8 draws
    of each item unless --set says otherwise.

    [bold]Examples[/bold]

    drlnet bench learner --env MinAtar/Breakout-v1 --rows server,learner

    drlnet bench learner --env ALE/Pong-v5 --set learner.device=cuda
    """

    env: str = option("CartPole-v1", "whose spaces and recipe are used", metavar="ID")
    algo: str = option("dqn", "the algorithm: dqn, btr, medqn or one like them")
    rows: Names = names("of replay.rows: server, learner, device [dim](default all)[/dim]")
    set_: list[str] | None = option(
        None, "any setting by its dotted key; repeatable", flag="--set", metavar="KEY=VALUE"
    )
    seconds: float = option(5.0, "of each turn", min=0.1)
    rounds: int = option(5, ROUNDS, min=1)

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench.engine import Course
        from drlnet.bench.learner_steps import measure_learner, require_steps
        from drlnet.config import load
        from drlnet.config.names import chosen

        places = ["server", "learner", "device"]
        if self.rows is not None:
            places = chosen("rows", self.rows, places)
        sets = ["replay.samples_per_insert=8", *(self.set_ or [])]
        config = load(self.env, flags={"algo.name": self.algo}, sets=sets)
        require_steps(config)
        return lambda stop: Found(
            measure_learner(
                Course(stop, self.rounds, note=output.note), config, places, self.seconds,
                output.note,
            )
        )  # fmt: skip


@dataclass(frozen=True)
class Faults(ToFile):
    """What a run survives: its processes are killed and stopped at random moments.

    `drlnet run --keep-replay` with server.durability = 0. After each fault it
    must come back: the server counts more steps, the learner makes more. At the
    end no count went back, each kill was one restart, and the state reads whole.

    [bold]Examples[/bold]

    drlnet bench faults --faults 50 --seed 1

    drlnet bench faults --set actor.num_actors=4 --set server.shards=2
    """

    env: str = option("CartPole-v1", "what the run plays", metavar="ID")
    faults: int = option(50, "how many", min=1)
    seed: int = option(0, "of which process, what, and when")
    set_: list[str] | None = option(
        None, "any setting of the run; repeatable", flag="--set", metavar="KEY=VALUE"
    )

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench.faults import measure_faults
        from drlnet.config import load

        load(self.env, sets=self.set_ or [])  # a mistake shows before anything starts

        def measure(stop: Stop) -> Found:
            measured = measure_faults(
                stop,
                self.env,
                faults=self.faults,
                seed=self.seed,
                sets=self.set_ or [],
                note=output.note,
            )
            return Found(measured, partial(_show_faults, measured))

        return measure


def _show_faults(measured: Records[Fault], file: TextIO) -> None:
    from statistics import median

    back: dict[tuple[str, str], list[float]] = {}
    for fault in measured.records:
        if fault.back_s is not None:
            back.setdefault((fault.subject, fault.op), []).append(fault.back_s)
    for (role, op), seconds in sorted(back.items()):
        print(
            f"{role}, {op}: {len(seconds)} times, back after {median(seconds):.1f} s in the "
            f"median, {max(seconds):.1f} s at most",
            file=file,
        )
    if result := measured.more.get("result"):
        mean = result["eval_return_mean"]  # None: ended before its first evaluation
        print(
            f"the run: greedy return {'none yet' if mean is None else f'{mean:.1f}'} after "
            f"{result['env_steps']:,} steps of environments, {result['learner_steps']:,} of the "
            "learner",
            file=file,
        )
    for line in measured.more["lost"] or ["nothing"]:
        print(f"lost: {line}", file=file)
    if "folder" in measured.more:
        print(f"its folder is kept: {measured.more['folder']}", file=file)


@dataclass(frozen=True)
class Turns:
    """Ping latency alone, and beside a client that samples 25 MB batches without a pause.

    Three processes that each want a core. "On a core" leaves out what the kernel
    counts as waiting for one; the rest is the server's turns and the network.
    """

    rounds: int = option(7, ROUNDS, min=1)
    pings: int = option(5000, "pings in each round", min=100)

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench.engine import Course
        from drlnet.bench.turns import measure_turns

        def measure(stop: Stop) -> Found:
            course = Course(stop, self.rounds, note=output.note)
            measured = measure_turns(course, pings=self.pings)
            return Found(measured, partial(_show_turns, measured))

        return measure


def _show_turns(measured: Records[Record], file: TextIO) -> None:
    from drlnet.bench.records import key_of, over
    from drlnet.bench.turns import ALONE, BESIDE

    found = {key_of(record): record for record in measured.records}
    for subject, op in (key[:2] for key in found if key[2] == BESIDE):
        alone, beside = found[subject, op, ALONE], found[subject, op, BESIDE]
        ratio = over(beside.of_rounds("p99_us"), alone.of_rounds("p99_us"))
        assert ratio is not None
        print(
            f"{subject}, {op}: p50 {alone.p50_us:.1f} us {ALONE}, {beside.p50_us:.1f} {BESIDE}; "
            f"p99 {alone.p99_us:.1f} and {beside.p99_us:.1f}, "
            f"{ratio.median:.2f} times that alone in the same round",
            file=file,
        )


@dataclass(frozen=True)
class Watch(ToFile):
    """Throughput of a server under load with `drlnet stats` attached, and without.

    The sides alternate; the ratio of each pair is printed, and their median.
    """

    pairs: int = option(5, "alternated pairs of sides", min=1)
    seconds: float = option(5.0, "that each side is measured", min=0.1)
    interval: float = option(0.5, "between two readings of stats", min=0.1)

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench.watch import measure_watching

        def report(alone: float, watched: float) -> None:
            output.note(
                f"{alone:,.0f} cycles/s not watched, {watched:,.0f} watched, "
                f"ratio {watched / alone:.4f}"
            )

        def measure(stop: Stop) -> Found:
            measured = measure_watching(
                stop,
                pairs=self.pairs,
                seconds=self.seconds,
                interval_s=self.interval,
                report=report,
            )
            if measured.more.get("ratio") is not None:
                output.note(f"median ratio {measured.more['ratio']:.4f}")
            return Found(measured)

        return measure
