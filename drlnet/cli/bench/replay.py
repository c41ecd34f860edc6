"""`drlnet bench replay`: what learner and actors do with a replay memory, on ours and on peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drlnet.cli.bench.command import ROUNDS, Found, Measure, Names, Suite, names, option
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.launch.signals import Stop


@dataclass(frozen=True)
class Replay(Suite):
    """What learner and actors do with a replay memory: on ours, from another process, and on peers.

    Insert one by one and by 50, sample, update, a learner's cycle; alone and
    beside clients that insert. Peers come by pip install 'drlnet\\[peers]',
    redis-server by the system; what is absent or broken is skipped, with a line.

    [bold]Examples[/bold]

    drlnet bench replay

    drlnet bench replay --against cpprb,redis --works small --quick

    drlnet bench replay --against none --transports udp --clients 0
    """

    rounds: int = option(3, ROUNDS, min=1)
    against: Names = names(
        "cpprb, torchrl, tianshou, redis, reverb, numpy "
        "[dim](default all that can be had; none)[/dim]",
        may_be_none=True,
    )
    works: Names = names("small, vector, atari [dim](default small,atari)[/dim]")
    transports: Names = names("of ours [dim](default dpdk:local,udp; none)[/dim]", may_be_none=True)
    clients: str = option("0,1,2", "that insert beside the learner", metavar="N,...")

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench.records import Records
        from drlnet.bench.replay import suite
        from drlnet.bench.show import plot_bars
        from drlnet.config.names import chosen
        from drlnet.errors import ConfigError

        clients = _numbers_in(self.clients)
        works = [
            (suite.WORKS[name], suite.subjects_of(suite.WORKS[name], self.transports, self.against))
            for name in chosen("work", self.works or suite.USUAL_WORKS, list(suite.WORKS))
        ]
        if not any(subjects for _, subjects in works):
            raise ConfigError("there is nothing to measure", "name transports, peers, or both")

        def measure(stop: Stop) -> Found:
            course = self.course(stop, output, self.rounds)
            results = suite.measure_replays(course, works, clients)
            records = results.records(suite.SUITE, suite.OPS, workloads_first=True)
            slower, of_floor = suite.ratios(records, works[0][1][0].name), suite.shares(records)
            more = results.derived(
                ratios=slower,
                shares_of_floor=of_floor,
                inserted_per_second=results.inserted_per_second(),
                includes=results.includes,
            )
            return Found(
                Records(records, more, results.distance),
                lambda file: suite.show(records, slower, of_floor, results.includes, file=file),
                "replay",
                plot_bars("Replay memories: time of a call", records),
            )

        return measure


def _numbers_in(words: str) -> list[int]:
    """How many clients insert, in ascending order; always without any, too. Raises ConfigError."""
    from drlnet.errors import ConfigError

    numbers = words.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise ConfigError(
            f"'{words}' is not a list of numbers of inserting clients", "give for example 0,1,2"
        )
    return sorted({0, *map(int, numbers)})
