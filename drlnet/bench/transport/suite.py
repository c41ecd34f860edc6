"""Every transport against kernel UDP, blocking and polled: same server, same payloads.

Each subject's turn is a fresh `drlnet serve` process: a server that polls would take a core from
the next, and a fresh one each round keeps luck with memory from being one subject's alone.

Server and client have a core each, in every subject. Blocking ones would do without, but left to
itself the scheduler at times puts both on one core, where neither needs to wake another: a ping
then takes a tenth of its time, which two processes with work of their own never see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import median

from drlnet.bench.engine import COPY, Effort, Note
from drlnet.bench.engine import Results as Rounds
from drlnet.bench.processes import WorkerFailed, Workers, served
from drlnet.bench.records import ByRound, OfRounds, Record, key_of, over
from drlnet.bench.transport.measuring import (
    BATCH,
    BATCH_BYTES,
    CELLS,
    Client,
    measure_copy,
    measure_ring,
)
from drlnet.bench.transport.subjects import Subject
from drlnet.errors import TransportError
from drlnet.launch.process import DRLNET
from drlnet.launch.signals import Stop

SUITE = "transport"
RING = "shared-memory ring (floor)"
BLOCK, BUSY = "udp block", "udp busy"
# Furukawa and Matsutani, arXiv 2110.13506: DPDK against kernel sockets, access latency to a
# shared-memory replay server.
PAPER_RANGE = (0.327, 0.589)


@dataclass(frozen=True)
class Places:
    """Where server and client run; around(subject): what has to be in place for its turn."""

    server: Sequence[str] = DRLNET
    client: Sequence[str] = DRLNET
    around: Callable[[Subject], AbstractContextManager[object]] = lambda subject: nullcontext()
    insecure: bool = False


@dataclass
class Results(Rounds):
    """The results of transports, with the threads that polled."""

    polling: dict[str, int] = field(default_factory=dict)  # subject: threads that poll

    def records(self) -> list[Record]:
        """In the order of the cells, within each the subjects as they were first measured."""
        subjects = list(self.polling)
        return [
            Record.of(
                SUITE, subject, payload, op, self.rounds[subject, op, payload],
                operation_bytes=BATCH_BYTES if payload == BATCH else None,
                oversubscribed=self.polling[subject] > self.cores.count,
            )
            for subject, op, payload in sorted(
                self.rounds, key=lambda key: (CELLS.index(key[1:]), subjects.index(key[0]))
            )
        ]  # fmt: skip


def measure_transports(
    stop: Stop,
    subjects: Sequence[Subject],
    *,
    rounds: int,
    effort: Effort,
    note: Note,
    places: Places | None = None,
    floors: bool = True,
) -> Results:
    """Measures all subjects in turns, and the floors behind each round.

    When stopped, returns what there is, marked as interrupted. Raises TransportError when no
    subject can be measured.
    """
    results, where = Results(), places or Places()

    def turn(subject: Subject) -> None:
        cores = results.cores
        with (
            where.around(subject),
            served(
                stop, [subject.listen], subject.poll, core=cores.server, program=where.server,
                insecure=where.insecure,
            ) as (_, addresses),
        ):  # fmt: skip
            client = clients.of("client", Client, program=where.client, core=cores.client)
            try:
                client.call("open", subject.connect or addresses[0], subject.poll)
                results.polling[subject.name] = subject.polling_threads
                for op, payload in CELLS:
                    latencies = client.measure(op, payload, effort)
                    results.keep(subject.name, op, payload, latencies)
                client.call("shut")
            except WorkerFailed:
                clients.end("client")
                raise

    def measure_floors(left: object) -> None:
        results.distance.look(results.cores, RING)
        results.polling |= {RING: 2, COPY: 1}
        for (op, payload), latencies in measure_ring(stop, effort, results.cores).items():
            results.keep(RING, op, payload, latencies)
        results.keep(COPY, "sampled bytes", BATCH, measure_copy(effort, results.cores))

    with results.until_stopped(), Workers(stop) as clients:
        behind = measure_floors if floors else None
        results.take_turns(stop, subjects, rounds, turn, note, behind=behind)
    if not results.rounds and not results.interrupted:
        cause = next(iter(results.unavailable.values()))
        raise TransportError(f"no transport can be measured: {cause}", "name others")
    return results


@dataclass(frozen=True)
class Reduction:
    """Shares of a baseline's p50 of the same round: 0.6 is 60% lower, a negative one is higher.

    than_block, than_busy: than kernel UDP's, blocking and polled, median over the rounds; and of
    the rounds the least and the most. wake_up_share: of the reduction against blocking sockets, the
    part that kernel UDP gains as well by polling; above 1 where it gains more. None where a
    baseline, or a reduction to take a share of, is missing.
    """

    subject: str
    op: str
    workload: str
    than_block: float | None
    than_busy: float | None
    wake_up_share: float | None
    than_block_of_rounds: tuple[float, float] | None
    than_busy_of_rounds: tuple[float, float] | None


def reductions(
    records: Sequence[Record], *, block: str = BLOCK, busy: str = BUSY
) -> list[Reduction]:
    """The reductions of every record that is not one of the two baselines."""
    p50 = {key_of(record): record.of_rounds() for record in records}
    found = []
    for record in records:
        if record.subject in {block, busy}:
            continue
        cell, ours = (record.op, record.workload), record.of_rounds()
        blocking, polled = p50.get((block, *cell), {}), p50.get((busy, *cell), {})
        than_block, than_busy = lower_than(ours, blocking), lower_than(ours, polled)
        found.append(
            Reduction(
                record.subject,
                *cell,
                than_block.median if than_block else None,
                than_busy.median if than_busy else None,
                wake_up_share(ours, blocking, polled),
                (than_block.low, than_block.high) if than_block else None,
                (than_busy.low, than_busy.high) if than_busy else None,
            )
        )
    return found


def lower_than(ours: ByRound, baseline: ByRound) -> OfRounds | None:
    """The shares by which ours is lower than the baseline of the same round."""
    ratio = over(ours, baseline)
    return None if ratio is None else ratio.lower()


def wake_up_share(ours: ByRound, blocking: ByRound, polled: ByRound) -> float | None:
    """The part of (blocking - ours) that is (blocking - polled): the rounds' median.

    None where ours is not lower in most of them.
    """
    rounds = [number for number in ours if number in blocking and number in polled]
    lower = [number for number in rounds if ours[number] < blocking[number]]
    if 2 * len(lower) <= len(rounds):
        return None
    return median((blocking[n] - polled[n]) / (blocking[n] - ours[n]) for n in lower)
