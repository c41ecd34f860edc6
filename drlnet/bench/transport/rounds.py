"""Every transport against kernel UDP, blocking and polled: same server, same payloads.

Each subject's turn is a fresh `drlnet serve` process, started for it and ended behind it: a server
that polls would take a core from the next, and a fresh one each round keeps luck with memory from
being one subject's alone. Subjects take turns within each round, the order shifted by one from
round to round. Percentiles are medians over the rounds.

Server and client have a core each, in every subject. Blocking ones would do without, but left to
itself the scheduler at times puts both on one core, where neither needs to wake another: a ping
then takes a tenth of its time, which two processes with work of their own never see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from drlnet.bench.cores import Cores, pin_process
from drlnet.bench.records import Record
from drlnet.bench.rounds import COPY, Effort, orders
from drlnet.bench.rounds import Results as Rounds
from drlnet.bench.transport.cells import BATCH, BATCH_BYTES, CELLS, Cell, Measured
from drlnet.bench.transport.client import measure
from drlnet.bench.transport.ring import measure_copy, measure_ring
from drlnet.bench.transport.subjects import RING, Subject
from drlnet.errors import DrlnetError, TransportError
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Supervisor

SUITE = "transport"
READY_DEADLINE_S = 60.0
Turn = Callable[[Subject], list[Measured]]


@dataclass
class Results(Rounds):
    """Of transports: with the threads that polled, and the cores that there were for them."""

    cores: Cores = field(default_factory=Cores.usable)
    polling: dict[str, int] = field(default_factory=dict)  # subject: threads that poll

    def add(self, subject: str, polling_threads: int, measured: Sequence[Measured]) -> None:
        self.polling[subject] = polling_threads
        for one in measured:
            self.keep(subject, one.op, one.payload, one.latencies_us.tolist())

    def records(self) -> list[Record]:
        """In the order of the cells, within each the subjects as they were first measured."""
        order: dict[Cell, int] = {cell: index for index, cell in enumerate(CELLS)}
        subjects = list(self.polling)
        found = []
        for (subject, op, payload), rounds in self.rounds.items():
            record = Record.of(
                SUITE,
                subject,
                payload,
                op,
                rounds,
                operation_bytes=BATCH_BYTES if payload == BATCH else None,
                oversubscribed=self.polling[subject] > self.cores.count,
            )
            found.append((order[op, payload], subjects.index(subject), record))
        return [record for _, _, record in sorted(found, key=lambda entry: entry[:2])]


def measure_transports(
    stop: Stop,
    subjects: Sequence[Subject],
    *,
    rounds: int,
    effort: Effort,
    note: Callable[[str], None],
    turn: Turn | None = None,
    floors: bool = True,
) -> Results:
    """Measures all subjects in turns, and the floors behind each round.

    turn: how one subject is measured once, by default with this process as the client. A subject
    that fails is left out from there on and its cause kept, with what was measured before. When
    stopped, returns what there is, marked as interrupted. Raises TransportError when no subject
    can be measured.
    """
    results = Results()

    def here(subject: Subject) -> list[Measured]:
        return measure_here(stop, subject, effort, results.cores)

    left = list(subjects)
    for number, order in enumerate(orders(left, rounds), 1):
        results.begin(number)
        for subject in order:
            note(f"round {number} of {rounds}: {subject.name}")
            results.distance.look(results.cores, subject.name)
            try:
                measured = (turn or here)(subject)
            except DrlnetError as error:
                cause = error.cause if number == 1 else f"from round {number} on: {error.cause}"
                left.remove(subject)
                results.leave_out(subject.name, cause, note)
            else:
                results.add(subject.name, subject.polling_threads, measured)
            if stop.is_set():
                results.interrupted = True
                return results
        if not left:
            break
        if floors:
            results.distance.look(results.cores, RING)
            results.add(RING, 2, measure_ring(stop, effort, results.cores))
            results.add(COPY, 1, [measure_copy(effort, results.cores)])
    if not results.rounds:
        cause = next(iter(results.unavailable.values()))
        raise TransportError(f"no transport can be measured: {cause}", "name others")
    results.interrupted = stop.is_set()
    return results


def measure_here(stop: Stop, subject: Subject, effort: Effort, cores: Cores) -> list[Measured]:
    """One turn of a subject: its server a process of its own, this one the client."""
    with Supervisor(stop) as group:
        listen = ("--poll", subject.poll, "--listen", subject.listen)
        server = group.start("server", ["serve", "--json", *listen])
        ready = group.wait_for_line(server, "ready", READY_DEADLINE_S)
        if not ready:  # stopped before
            return []
        pin_process(server.pid, cores.server)
        address = subject.connect or ready["addresses"][0]
        measured = []
        for one in measure(address, subject.poll, effort, core=cores.client):
            measured.append(one)
            if stop.is_set():
                break
        return measured
