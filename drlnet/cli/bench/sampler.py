"""`drlnet bench sampler`: drawing by priority and updating, beside what others do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drlnet.cli.bench.command import ROUNDS, Found, Measure, Names, Suite, names, option
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.launch.signals import Stop

_MOST_DRAWS = 65536  # of one request to a server


@dataclass(frozen=True)
class Sampler(Suite):
    """Drawing a batch by priority and updating one, over sizes, beside what others do.

    The server's samplers by themselves, on one core. Peers come by pip install
    'drlnet\\[peers]'.

    [bold]Examples[/bold]

    drlnet bench sampler

    drlnet bench sampler --sizes 2^10..2^27 --peers none --rounds 3

    drlnet bench sampler --sizes 2^20 --samplers prioritized --peers cpprb
    """

    rounds: int = option(5, ROUNDS, min=1)
    sizes: str = option(
        "2^10,2^14,2^17,2^20", "leaves: 1000, 2^20, or 2^10..2^27 for all between",
        metavar="N,...",
    )  # fmt: skip
    batch: int = option(512, "draws, or updates, in a call")
    samplers: Names = names(
        "ours, the first the baseline [dim](default all; none)[/dim]", may_be_none=True
    )
    peers: Names = names(
        "numpy, numpy-tree, cpprb, torchrl, tianshou "
        "[dim](default all that can be had; none)[/dim]",
        may_be_none=True,
    )
    kernels: Names = names(
        "instruction sets for prioritized's tree: avx512, avx2, portable "
        "[dim](default all that run here)[/dim]"
    )
    priorities: str = option("exponential", "exponential, uniform, equal, or wide (12 magnitudes)")

    def prepare(self, output: Output) -> Measure:
        from drlnet.bench import samplers as suite
        from drlnet.bench.measure import kernel_names
        from drlnet.bench.records import Records
        from drlnet.errors import ConfigError
        from drlnet.metrics.host import cache_bytes

        sizes = suite.sizes_of(self.sizes)
        if not 1 <= self.batch <= _MOST_DRAWS:
            raise ConfigError(
                f"a batch of {self.batch} cannot be measured", f"give from 1 to {_MOST_DRAWS} draws"
            )
        subjects = suite.subjects_of(self.samplers, self.peers, self.kernels)
        if not subjects:
            raise ConfigError("there is nothing to measure", "name samplers, peers, or both")
        suite.priorities_of(self.priorities, 1)  # says now if there is none of that name

        def measure(stop: Stop) -> Found:
            results = suite.measure_samplers(
                self.course(stop, output, self.rounds), subjects,
                sizes=sizes, batch=self.batch, distribution=self.priorities,
            )  # fmt: skip
            records = results.records(suite.SUITE, suite.OPS)
            found = suite.ratios(records, subjects[0].name)
            more = results.derived(ratios=found, kernels=kernel_names(), includes=results.includes)
            by_workload = {suite.workload_of(size, self.batch): size for size in sizes}
            return Found(
                Records(records, more),
                lambda file: suite.show(records, found, results.includes, file=file),
                "sampler",
                suite.plot(records, by_workload, cache_bytes()),
            )

        return measure
