"""`drlnet bench actors`: how many actors one server holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from drlnet.cli.bench.command import ROUNDS, Found, Measure, Suite, option
from drlnet.cli.options import EalOption, require_dpdk
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.bench.transport.suite import Subject
    from drlnet.launch.signals import Stop


@dataclass(frozen=True)
class Actors(Suite):
    """A thousand actors at one server, and a learner beside them.

    One process is all the actors: a session each, whose appends leave when they
    are due (open loop). What the appends and the learner's cycles take, the
    server's memory per client, and how far the slowest actor is behind. With
    --double the actors double until a limit is reached, which is named.

    [bold]Examples[/bold]

    drlnet bench actors

    drlnet bench actors --shape atari --steps-per-second 1000 --double

    drlnet bench actors --actors 29 --transport dpdk:local --eal '-m 1024'
    """

    actors: int = option(1000, "sessions, of one stream each", min=1, max=100_000)
    steps_per_second: float = option(250.0, "of each actor", flag="--steps-per-second", min=0.1)
    shape: Literal["cartpole", "atari"] = option("cartpole", "what a step is")
    append_rows: int | None = option(
        None, "steps of an append [dim](default: what an actor gathers in 5 ms)[/dim]",
        flag="--append-rows", min=1, max=256,
    )  # fmt: skip
    batch: int = option(512, "items of the learner's batch", min=1, max=8192)
    capacity: int = option(65536, "steps that the table holds", min=1024)
    seconds: float = option(5.0, "of each round", min=0.1)
    double: bool = option(False, "double the actors until a limit is reached")
    rounds: int = option(3, ROUNDS, min=1)
    transport: str = option("udp", "udp, dpdk:local, dpdk:memif or dpdk:virtio-user",
                            metavar="NAME")  # fmt: skip
    server: str | None = option(None, "of a server that runs already", metavar="ADDRESS")
    eal: EalOption = None

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench.actors import suite
        from drlnet.bench.actors.crowd import Asked
        from drlnet.bench.engine import Effort
        from drlnet.bench.records import Records

        subject = self.subject()
        asked = Asked(
            self.shape, self.steps_per_second, self.append_rows, self.batch, self.capacity
        )

        def measure(stop: Stop) -> Found:
            seconds = self.seconds / 10 if self.quick else self.seconds
            course = replace(
                self.course(stop, output, self.rounds), effort=Effort(budget_s=seconds)
            )
            results = suite.measure_crowds(
                course, subject, asked, self.actors, double=self.double, server=self.server
            )
            crowded = results.crowded(asked)
            addresses = [self.server] if self.server else []
            return Found(
                Records(crowded, results.derived(limits=results.limits), results.distance,
                        addresses),
                lambda file: suite.show(crowded, results.limits, file=file),
                f"actors-{self.shape}",
                suite.plot(crowded),
            )  # fmt: skip

        return measure

    def subject(self) -> Subject:
        """What is measured. Raises ConfigError."""
        from drlnet.bench.transport.suite import Subject
        from drlnet.config.names import chosen
        from drlnet.config.transports import LISTEN

        require_dpdk(self.eal, [self.server or self.transport])
        if self.server is not None:
            return Subject(self.server.partition(":")[0], "", "adaptive")
        chosen("transport", [self.transport], list(LISTEN))
        return Subject(self.transport, LISTEN[self.transport], "adaptive")
