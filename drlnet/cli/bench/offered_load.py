"""`drlnet bench load`: latency over offered load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from drlnet.cli.bench.command import ROUNDS, Found, Measure, Names, Suite, names, option
from drlnet.cli.options import EalOption, require_dpdk
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.bench.transport.suite import Subject
    from drlnet.launch.signals import Stop


@dataclass(frozen=True)
class Load(Suite):
    """Latency over offered load, from light load to the knee, of each transport.

    An open loop: requests leave when they are due, whatever became of those
    before, and latencies run from then (no coordinated omission). The load is
    doubled, then bisected. Measure on an idle machine with two cores or more.

    [bold]Examples[/bold]

    drlnet bench load

    drlnet bench load --op sample --payload 7056 --transports udp

    drlnet bench load --loss 0.01 --delay 200us

    drlnet bench load --flood --op ping

    drlnet bench load --server udp://10.0.0.2:7447  [dim]# a `drlnet serve` there[/dim]
    """

    op: Literal["append", "sample", "ping"] = option("append", "what is requested")
    payload: int = option(64, "bytes of a row, or of a ping", min=1, max=65536)
    batch: int = option(32, "rows of a sample", min=1, max=8192)
    loss: float = option(0.0, "share of frames that the built-in faulty link loses, each way",
                         min=0, max=0.5)  # fmt: skip
    delay: str = option("0us", "that it delays each frame, each way", metavar="TIME")
    flood: bool = option(
        False, "one light load over UDP, alone and beside floods: garbage, hellos, replays, appends"
    )
    rounds: int = option(3, ROUNDS, min=1)
    transports: Names = names(
        "of udp, dpdk:local, dpdk:memif, dpdk:virtio-user, memory: a thread of the client's "
        "process [dim](default udp,dpdk:local,memory)[/dim]"
    )
    server: str | None = option(None, "of a server that runs already", metavar="ADDRESS")
    eal: EalOption = None

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench.load import flood, suite
        from drlnet.bench.load.generator import Asked
        from drlnet.bench.records import Records

        asked = Asked(self.op, self.payload, self.batch, self.loss, _microseconds(self.delay))
        subjects = self.subjects()

        def beside_floods(stop: Stop) -> Found:
            course = self.course(stop, output, self.rounds)
            results = flood.measure_floods(course, subjects, asked, self.server)
            loaded = results.loaded()
            addresses = [self.server] if self.server else []
            return Found(
                Records(loaded, results.derived(), results.distance, addresses),
                lambda file: suite.show(loaded, {}, file=file, caption=flood.CAPTION),
                f"flood-{self.op}",
                flood.plot(loaded),
            )

        def measure(stop: Stop) -> Found:
            course = self.course(stop, output, self.rounds)
            results = suite.measure_loads(course, subjects, asked, self.server)
            loaded, knees = results.loaded(asked), results.knees_of_rounds()
            addresses = [self.server] if self.server else []
            return Found(
                Records(loaded, results.derived(knees=knees), results.distance, addresses),
                lambda file: suite.show(loaded, knees, file=file),
                f"load-{self.op}",
                suite.plot(loaded),
            )

        return beside_floods if self.flood else measure

    def subjects(self) -> list[Subject]:
        """What is measured. Raises ConfigError."""
        from drlnet.bench.load.generator import MEMORY
        from drlnet.bench.transport.suite import Subject, subjects_of
        from drlnet.config.names import chosen
        from drlnet.config.transports import LISTEN
        from drlnet.errors import ConfigError

        require_dpdk(self.eal, [self.server] if self.server else self.transports)
        if self.server is not None:
            if self.transports is not None:
                raise ConfigError(
                    "--server names a transport, and --transports others", "give one of the two"
                )
            scheme = self.server.partition(":")[0]
            return [Subject(f"{scheme} busy", "", "busy"), Subject(f"{scheme} block", "", "block")]
        if self.flood and self.transports not in (None, ["udp"]):
            raise ConfigError("--flood sends over udp alone", "leave out --transports")
        wanted = ["udp"] if self.flood else self.transports or ["udp", "dpdk:local", MEMORY]
        chosen("transport", wanted, [*LISTEN, MEMORY])
        found = subjects_of([name for name in wanted if name != MEMORY])
        if "udp" not in wanted:
            found = [subject for subject in found if not subject.name.startswith("udp ")]
        return found + [Subject("memory busy", MEMORY, "busy") for _ in wanted if _ == MEMORY]


def _microseconds(words: str) -> float:
    """Microseconds of "200us", "1.5ms" or "0.1s". Raises ConfigError."""
    import re

    from drlnet.errors import ConfigError

    found = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", words)
    if found is None:
        raise ConfigError(f"'{words}' is not a time", "give for example --delay 200us, 1.5ms, 0.1s")
    return float(found[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[found[2]]
