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
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Literal, TextIO

from drlnet.bench import show as tables
from drlnet.bench.engine import COPY, Course, Results
from drlnet.bench.processes import WorkerFailed, Workers, served
from drlnet.bench.records import ByRound, Record, key_of, lower_than
from drlnet.bench.transport.measuring import (
    BATCH,
    BATCH_BYTES,
    CELLS,
    Client,
    measure_copy,
    measure_handovers,
)
from drlnet.config.keys import make_keys
from drlnet.config.names import chosen
from drlnet.config.transports import LISTEN
from drlnet.errors import TransportError
from drlnet.launch.process import DRLNET

SUITE = "transport"
OPS = tuple(dict.fromkeys(op for op, _ in CELLS))
HANDOVER = "bare hand-over in memory"
BLOCK, BUSY = "udp block", "udp busy"
# Furukawa and Matsutani, arXiv 2110.13506: DPDK against kernel sockets, access latency to a
# shared-memory replay server.
PAPER_RANGE = (0.327, 0.589)
_SMALL_BYTES = ("64 B", "1 KiB", "7 KB frame", "8 KiB")  # above, bytes per second are the measure
Poll = Literal["block", "busy", "adaptive"]


@dataclass(frozen=True)
class Subject:
    """A transport and a way to poll, the same for server and client.

    connect: what the client types, where that is not what the server says. sealed: with keys.
    loss: share of the datagrams that are lost, each way.
    """

    name: str
    listen: str
    poll: Poll
    connect: str | None = None
    sealed: bool = False
    loss: float = 0.0

    @property
    def polling_threads(self) -> int:
        return 2 if self.poll == "busy" else 0


def subjects_of(transports: Sequence[str] | None) -> list[Subject]:
    """Kernel UDP, blocking and polled, and each other transport polled. None: all there are.

    Each is tried; one that cannot be had here says why. Raises ConfigError for an unknown name.
    """
    wanted = chosen("transport", transports, list(LISTEN))
    others = [name for name in wanted if name != "udp"]
    return [
        Subject(BLOCK, LISTEN["udp"], "block"),
        Subject(BUSY, LISTEN["udp"], "busy"),
        *(Subject(f"{name} busy", LISTEN[name], "busy") for name in others),
    ]


def sealed_too(subjects: Sequence[Subject]) -> list[Subject]:
    """These, and each once more with keys; but for links in memory, which stay clear."""
    shared_memory = tuple(name for name in LISTEN if name != "udp")
    return [
        one
        for subject in subjects
        for one in (subject, replace(subject, name=f"{subject.name}, sealed", sealed=True))
        if not (one.sealed and subject.listen.startswith(shared_memory))
    ]


@dataclass(frozen=True)
class Places:
    """Where server and client run; around(subject): what has to be in place for its turn."""

    server: Sequence[str] = DRLNET
    client: Sequence[str] = DRLNET
    around: Callable[[Subject], AbstractContextManager[object]] = lambda subject: nullcontext()


def measure_transports(
    course: Course,
    subjects: Sequence[Subject],
    *,
    places: Places | None = None,
    beside: bool = True,
) -> Results:
    """Measures all subjects in turns; beside: behind each round what memory alone takes, too.

    When stopped, returns the results so far, marked as interrupted. Raises TransportError when no
    subject can be measured.
    """
    results, where = Results(), places or Places()
    cores = results.cores

    def turn(subject: Subject) -> None:
        key = keys if subject.sealed else None
        with (
            where.around(subject),
            served(
                course.stop, [subject.listen], subject.poll,
                core=cores.server, program=where.server, insecure=True, key=key,
            ) as (_, addresses),
        ):  # fmt: skip
            client = clients.of("client", Client, program=where.client, core=cores.client)
            try:
                client.call("open", subject.connect or addresses[0], subject.poll, key)
                for op, payload in CELLS:
                    results.keep(
                        subject.name, op, payload, client.measure(op, payload, course.effort),
                        operation_bytes=BATCH_BYTES if payload == BATCH else None,
                        threads=subject.polling_threads,
                    )  # fmt: skip
                client.call("shut")
            except WorkerFailed:
                clients.end("client")
                raise

    def measure_beside(left: object) -> None:
        results.distance.look(cores, HANDOVER)
        for (op, payload), latencies in measure_handovers(course.effort, cores).items():
            results.keep(HANDOVER, op, payload, latencies, threads=2)
        copied = measure_copy(course.effort, cores)
        results.keep(COPY, "sampled bytes", BATCH, copied, operation_bytes=BATCH_BYTES, threads=1)

    with (
        results.until_stopped(),
        Workers(course.stop) as clients,
        TemporaryDirectory(prefix="drlnet-") as folder,
    ):
        keys = Path(folder) / "keys"
        make_keys(keys)
        behind = measure_beside if beside else None
        results.take_turns(course, subjects, turn, behind=behind)
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
        (than_block, of_block), (than_busy, of_busy) = (
            (share.median, (share.low, share.high)) if share is not None else (None, None)
            for share in (lower_than(ours, blocking), lower_than(ours, polled))
        )
        wake_up = wake_up_share(ours, blocking, polled)
        found.append(
            Reduction(record.subject, *cell, than_block, than_busy, wake_up, of_block, of_busy)
        )
    return found


def wake_up_share(ours: ByRound, blocking: ByRound, polled: ByRound) -> float | None:
    """The part of (blocking - ours) that is (blocking - polled): the rounds' median.

    None where ours is not lower in most of them.
    """
    rounds = [number for number in ours if number in blocking and number in polled]
    lower = [number for number in rounds if ours[number] < blocking[number]]
    if 2 * len(lower) <= len(rounds):
        return None
    return median((blocking[n] - polled[n]) / (blocking[n] - ours[n]) for n in lower)


def show(
    records: Sequence[Record], reductions: Sequence[Reduction], *, file: TextIO, **compared: Any
) -> None:
    """Prints it: in colour on a terminal, plain elsewhere. compared: as caption() takes it."""
    columns = {
        "than block": tables.column({key_of(r): _share(r.than_block) for r in reductions}),
        "than busy": tables.column({key_of(r): _share(r.than_busy) for r in reductions}),
    }
    tables.show(records, columns, caption(records, **compared), file=file)


def _share(value: float | None) -> str:
    """A reduction as a reader expects it: -63% is 63% lower."""
    return "" if value is None else f"{-100 * value:+.1f}%"


def caption(
    records: Sequence[Record], *, block: str = BLOCK, busy: str = BUSY, mtu: int | None = None
) -> list[str]:
    """What a reader has to know beside the figures.

    block, busy: the baselines' names. mtu: of the interfaces that links are, if they are.
    """
    low, high = PAPER_RANGE
    link = (
        f"All links here are the same pair of interfaces, MTU {mtu}: what is longer takes several "
        "frames, which the kernel hands to itself as one, and to DPDK one by one."
        if mtu is not None
        else "Links in shared memory join processes of one machine and are not a network."
    )
    return [
        f'"Than block" and "than busy": p50 relative to "{block}" and "{busy}" of the same round '
        "(median over the rounds), kernel sockets whose server and client sleep, and spin, until "
        "something arrives; -50% is half. "
        f"The paper (arXiv 2110.13506) reports {-100 * low:.1f}% to {-100 * high:.1f}%, "
        f"DPDK against kernel sockets. {link}",
        *_wake_up(records, block, busy),
    ]


def _wake_up(records: Sequence[Record], block: str, busy: str) -> list[str]:
    """How much of a blocking call is the time that a wake-up takes."""
    p50 = {key_of(record): record.of_rounds() for record in records}
    shares = [
        share.median
        for (subject, op, payload), polled in p50.items()
        if subject == busy and payload in _SMALL_BYTES
        if (share := lower_than(polled, p50.get((block, op, payload), {}))) is not None
    ]
    if not shares:
        return []
    return [
        f"Wake-up time, {block} less {busy}, is {100 * median(shares):.0f}% of a blocking call "
        "(median of the operations up to 8 KiB): polling alone, in the kernel, brings that."
    ]
