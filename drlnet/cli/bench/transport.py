"""`drlnet bench transport`: operations over each transport."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drlnet.cli.bench.command import ROUNDS, Found, Measure, Names, OverTransports, names, option
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.launch.signals import Stop

_MTU = 9000  # of the veth pair


@dataclass(frozen=True)
class Transport(OverTransports):
    """Latency of every operation over each transport, against kernel UDP blocking and polled.

    The same server program and payloads each time. Beside them: two threads that
    hand messages over in memory, copied in and copied out, and a memcpy. Measure
    on an idle machine with two cores or more.

    [bold]Examples[/bold]

    drlnet bench transport

    drlnet bench transport --transports udp,dpdk:local --rounds 9

    drlnet bench transport --transports udp --sealed

    sudo drlnet bench transport --netns

    sudo drlnet bench transport --netns --loss 0.001,0.01,0.1
    """

    rounds: int = option(5, ROUNDS, min=1)
    mtu: int | None = option(
        None, "of that veth pair; above 3498 without AF_XDP [dim](default 9000)[/dim]",
        min=1280, max=9000,
    )  # fmt: skip

    sealed: bool = option(False, "with keys, too: what encryption costs")
    loss: Names = names(
        "kernel UDP alone, at these shares of lost datagrams, too", metavar="SHARE,..."
    )

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench.records import Records
        from drlnet.bench.show import plot_bars
        from drlnet.bench.transport import loss, suite
        from drlnet.errors import ConfigError

        local = self.subjects()
        if self.mtu is not None and not self.netns:
            raise ConfigError("--mtu is of the veth pair, which --netns makes", "add --netns")
        if self.loss is not None and not self.netns:
            raise ConfigError("--loss is of the veth pair, which --netns makes", "add --netns")
        losses = [] if self.loss is None else loss.losses_in(self.loss)
        mtu = (self.mtu or _MTU) if self.netns else None

        def measure(stop: Stop) -> Found:
            subjects, places, (block, busy) = local, suite.Places(), (suite.BLOCK, suite.BUSY)
            with ExitStack() as stack:
                if mtu is not None:
                    from drlnet.bench import netns

                    places, subjects = stack.enter_context(
                        netns.over_veth(mtu, stop, apart=bool(losses))
                    )
                    block, busy = netns.BLOCK, netns.BUSY
                if self.sealed:
                    subjects = suite.sealed_too(subjects)
                if losses:
                    subjects = loss.lossy_too(subjects, losses)
                course = self.course(stop, output, self.rounds)
                results = suite.measure_transports(
                    course, subjects, places=places, beside=mtu is None
                )
            records = results.records(suite.SUITE, suite.OPS)
            if losses:
                kept = loss.shares(records, subjects)
                return Found(
                    Records(records, results.derived(of_lossless=kept), results.distance),
                    lambda file: loss.show(records, kept, file=file),
                    "transport-loss",
                    loss.plot(kept, subjects),
                )
            found = suite.reductions(records, block=block, busy=busy)
            more = results.derived(reductions=found, paper_range=suite.PAPER_RANGE)
            return Found(
                Records(records, more, results.distance),
                lambda file: suite.show(records, found, file=file, block=block, busy=busy, mtu=mtu),
                "transport" if mtu is None else "transport-veth",
                plot_bars("Latency of each operation", records),
            )

        return measure
