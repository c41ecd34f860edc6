"""Replay memories in turns: ours over each transport, and peers, on the same work.

Each memory is used by a process of its own, which may die alone. Peers are filled once for a work
and stay, idle, between their turns, since some take minutes to fill; our servers, which poll, are
started anew for each turn, so that they take no core from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Literal, TextIO

import numpy as np

from drlnet.bench import peers
from drlnet.bench import show as tables
from drlnet.bench.engine import COPY, Course
from drlnet.bench.engine import Results as Rounds
from drlnet.bench.processes import Worker, WorkerFailed, Workers
from drlnet.bench.records import Key, Ratio, Record, key_of, over, ratios_of
from drlnet.bench.replay.learner import (
    ALONE,
    BATCH,
    BESIDE,
    CYCLE,
    GATHER,
    INSERT,
    PREFETCHED,
    SAMPLE,
    SLICE_S,
    Client,
    Learner,
    bare,
    measure_floors,
)
from drlnet.bench.replay.memory import BY, Memory
from drlnet.bench.replay.ours import DEPTH, Mirrored, Ours
from drlnet.bench.shapes import FRAMES, FRAMES_3, SMALL_STEP, VECTOR, WHOLE, Shape
from drlnet.bench.transport.suite import Subject as Link
from drlnet.bench.transport.suite import subjects_of as links_of

SUITE = "replay"
CLIENTS = (0, 1, 2)
SHARE = 0.25  # each inserting client's rate at most, of what its subject inserts alone
OPS = (*ALONE, PREFETCHED)
BULK = (SAMPLE, CYCLE, PREFETCHED)  # what moves a batch
_LEAVE_S = 60.0  # to store what is under way


@dataclass(frozen=True)
class Subject:
    """A memory over one shape.

    find: called in the learner's process, so it must pickle; imports what makes memories.
    resident: it may stay, filled, while others are measured; one that polls may not.
    link: of ours.
    """

    name: str
    find: Callable[[], Callable[[Shape], Memory]]
    shape: Shape
    resident: bool
    link: Link | None = None


@dataclass(frozen=True)
class Work:
    """What all do: the records' workload, whose items are alike whatever holds them.

    forms: how our tables hold it, the first being the usual one; peers hold whole transitions.
    beside_per_second: transitions that two inserting clients together do not exceed.
    """

    name: str
    forms: dict[str, Shape]
    beside_per_second: float


WORKS = {
    "small": Work("small", {"": SMALL_STEP}, 1.25e6),
    "vector": Work("vector", {"": VECTOR}, 2.5e5),
    "atari": Work("atari", {"frames": FRAMES, "frames, 3-step": FRAMES_3, "rows": WHOLE}, 75e3),
}
USUAL_WORKS = ("small", "atari")
TRANSPORTS = ("dpdk:local", "udp")
MIRRORED = "rows at the learner"


def named(subject: str, form: str) -> str:
    """A subject of ours, or its floor, in that form."""
    return f"{subject}, {form}" if form else subject


def _ours(link: Link) -> Callable[[Shape], Memory]:
    return partial(Ours, link.listen, link.poll)


def _mirrored(link: Link) -> Callable[[Shape], Memory]:
    return partial(Mirrored, link.listen, link.poll)


def subjects_of(
    work: Work, transports: Sequence[str] | None, against: Sequence[str] | None
) -> list[Subject]:
    """Ours over every transport, what blocks with whole rows in the usual form alone; then peers.

    None: all.

    Raises ConfigError for an unknown name.
    """
    links = links_of(TRANSPORTS if transports is None else transports)
    # What blocks last, so that the first is what polls over the first transport named.
    kinds = {link: link.name.removesuffix(f" {link.poll}") for link in links}
    links = [link for link in links if transports is None or kinds[link] in transports]
    links.sort(key=lambda link: (link.poll == "block", kinds[link] == "udp"))
    usual = next(iter(work.forms.values()))
    ours = [
        Subject(named(link.name, form), partial(_ours, link), shape, resident=False, link=link)
        for form, shape in work.forms.items()
        for link in links
        if shape == usual or not shape.whole or link.poll == "busy"
    ]
    # Rows as they were stored: whole ones travel once wherever they lie.
    ours += [
        replace(one, name=named(one.name, MIRRORED), find=partial(_mirrored, one.link))
        for one in ours
        if one.link is not None and not one.shape.whole
    ]
    return ours + [
        Subject(name, partial(peers.imported, peers.MEMORIES, name), usual, resident=True)
        for name in peers.named(peers.MEMORIES, against)
    ]


@dataclass
class Results(Rounds):
    """The results of replay memories, and what clients inserted beside them."""

    inserted: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """(subject, workload): transitions per second, by round."""

    def inserted_per_second(self) -> dict[str, dict[str, float]]:
        """By workload and subject: the median of the rounds."""
        found: dict[str, dict[str, float]] = {}
        for (subject, workload), rates in self.inserted.items():
            found.setdefault(workload, {})[subject] = float(np.median(rates))
        return found


def is_floor(subject: str) -> bool:
    """Whether it only moves bytes and stores nothing."""
    return "(floor)" in subject


def workload_of(work: Work, clients: int) -> str:
    """What a record calls it."""
    return work.name if clients == 0 else f"{work.name}, {clients} inserting"


def measure_replays(
    course: Course,
    works: Sequence[tuple[Work, Sequence[Subject]]],
    clients: Sequence[int] = CLIENTS,
) -> Results:
    """Measures all subjects in turns over each work, and the floors behind each round.

    When stopped, returns the results so far, marked as interrupted.
    """
    results = Results()
    with results.until_stopped():
        for work, subjects in works:
            with Workers(course.stop) as learners:
                one = _OneWork(course, learners, results, work, clients)
                what, behind = f"{work.name}, ", one.measure_floors
                results.take_turns(course, subjects, one.turn, what=what, behind=behind)
    return results


@dataclass
class _OneWork:
    """One work: the learners' processes, and what a turn is."""

    course: Course
    learners: Workers
    results: Results
    work: Work
    clients: Sequence[int]

    def turn(self, subject: Subject) -> None:
        new = subject.name not in self.learners
        try:
            learner = self.learners.of(subject.name, partial(Learner, subject.find))
            if new or not subject.resident:
                includes = learner.call("open", subject.shape)
                if subject.link is None:
                    self.results.includes[subject.name] = includes
            for count in self.clients:
                self._beside(subject, learner, count)
            if not subject.resident:
                learner.call("shut")
        except WorkerFailed:
            self.learners.end(subject.name)
            raise

    def _beside(self, subject: Subject, learner: Worker, count: int) -> None:
        """Every operation, while that many clients insert."""
        if count == 0:
            self._operations(subject, learner, count, ALONE)
            return
        make = partial(Client, learner.call("memory.door"), subject.shape)
        with ExitStack() as stack:
            clients = [stack.enter_context(Worker(self.course.stop, make)) for _ in range(count)]
            learner.begin("memory.welcome", count)
            for client in clients:
                client.ready()
            learner.answer()
            with ExitStack() as inserting:
                rate = self._rate(subject)
                found = [inserting.enter_context(c.doing("insert", rate)) for c in clients]
                self._operations(subject, learner, count, BESIDE)
            for client in clients:
                client.begin("leave")
            learner.call("memory.let_go", deadline_s=_LEAVE_S)
            for client in clients:
                client.answer(_LEAVE_S)
        per_second = sum(inserted / seconds for ((inserted, seconds),) in found)
        key = subject.name, workload_of(self.work, count)
        self.results.inserted.setdefault(key, []).append(per_second)

    def _operations(
        self, subject: Subject, learner: Worker, clients: int, ops: Sequence[str]
    ) -> None:
        link, reply_bytes = subject.link, subject.shape.reply_bytes(BATCH)
        for op in (*ops, PREFETCHED):
            latencies = learner.measure(op, self.course.effort)
            if latencies is not None:
                self.results.keep(
                    subject.name, op, workload_of(self.work, clients), latencies,
                    operation_bytes=(learner.call("sent_each") or reply_bytes)
                    if link is not None and op in BULK else None,
                    threads=clients + (0 if link is None else link.polling_threads),
                )  # fmt: skip

    def _rate(self, subject: Subject) -> float:
        """Transitions per second of a client."""
        *_, alone = self.results.rounds[subject.name, INSERT, self.work.name].values()
        return min(SHARE * BY * 1e6 / float(np.mean(alone)), self.work.beside_per_second / 2)

    def measure_floors(self, subjects: Sequence[Subject]) -> None:
        """The ratios of every form in which a server of ours holds the work."""
        self.results.distance.look(self.results.cores, f"{self.work.name}, floors")
        for form, shape in self.work.forms.items():
            links = [s.link for s in subjects if s.link is not None and s.shape == shape]
            polls = sorted({link.poll for link in links if link.name.startswith("udp")})
            mirrors = any(s.shape == shape and s.name.endswith(MIRRORED) for s in subjects)
            measured = measure_floors(shape, self.course.effort, polls, mirrors=mirrors)
            floors = measured if links else ()
            for name, op, latencies, size in floors:
                self.results.keep(
                    named(name, form), op, self.work.name, latencies, operation_bytes=size
                )


def ratios(records: Sequence[Record], baseline: str) -> list[Ratio]:
    """Rounds' mean times over the baseline's; of a cycle, over its one with batches prefetched.

    A peer cannot draw ahead of the update before (Reverb does so anyway): both are a learner's
    step as it is usually taken.
    """

    def against(record: Record) -> Key | None:
        op = PREFETCHED if record.op == CYCLE else record.op
        return None if is_floor(record.subject) else (baseline, op, record.workload)

    return ratios_of(records, against, "mean_us")


def shares(records: Sequence[Record]) -> list[Ratio]:
    """The floor's time over ours, by round: 0.8 is 80% of what the floor does meanwhile.

    By p50, which one delay of a few large transfers does not bend; of insertions, whose work waits
    behind the calls, by the mean.
    """
    found_at = {key_of(r): r for r in records}
    found = []
    for record in records:
        subject, op = _floor_of(record) or ("", "")
        floor = found_at.get((subject, op, record.workload.split(",")[0]))
        if floor is None:
            continue
        figure: Literal["mean_us", "p50_us"] = "mean_us" if op == INSERT else "p50_us"
        share = over(floor.of_rounds(figure), record.of_rounds(figure))
        if share is not None:
            found.append(Ratio(*key_of(record), subject, *astuple(share)))
    return found


def _floor_of(record: Record) -> tuple[str, str] | None:
    """(subject, op)"""
    link, _, form = record.subject.partition(", ")
    transport, _, poll = link.partition(" ")
    mirrored = form == MIRRORED or form.endswith(f", {MIRRORED}")
    form = form.removesuffix(MIRRORED).removesuffix(", ")
    if poll not in {"busy", "block"}:
        return None
    if record.op == INSERT:
        return named(COPY, form), INSERT
    if record.op in BULK and mirrored:
        return named(GATHER, form), SAMPLE
    if record.op in BULK:
        return named(bare(poll) if transport == "udp" else COPY, form), SAMPLE
    return None


def show(
    records: Sequence[Record],
    ratios: Sequence[Ratio],
    shares: Sequence[Ratio],
    includes: Mapping[str, str],
    *,
    file: TextIO,
) -> None:
    """Prints it: in colour on a terminal, plain elsewhere. includes: what each peer is."""
    slower = {key_of(r): tables.times(r.ratio) for r in ratios}
    of_floor = {key_of(r): f"{100 * r.ratio:.0f}%" for r in shares}
    tables.show(
        records,
        {
            "per s": _per_second,
            "bytes": _bytes,
            "ratio": tables.column(slower),
            "of floor": tables.column(of_floor),
        },
        caption(records, ratios, includes),
        file=file,
        without=("p99.9 us", "GB/s"),
    )


def _bytes(record: Record) -> str:
    """That the server sent for a call; what a floor moves."""
    if record.bytes_per_second is None or not record.per_second:
        return ""
    return f"{record.bytes_per_second / record.per_second:,.0f}"


def _per_second(record: Record) -> str:
    """Calls; of insertions, transitions."""
    return f"{record.per_second * (BY if record.op == INSERT else 1):,.0f}"


def caption(
    records: Sequence[Record], ratios: Sequence[Ratio], includes: Mapping[str, str]
) -> list[str]:
    """What a reader has to know beside the figures."""
    lines = []
    works = [(name, WORKS[name]) for name in WORKS if name in {r.workload for r in records}]
    for baseline in dict.fromkeys(ratio.baseline for ratio in ratios):
        lines.append(
            f'Ratio: mean time relative to "{baseline}" in the same operation, workload and round '
            f'(median over the rounds); 4x takes four times as long. Of "{CYCLE}": to that with '
            f"{DEPTH} batches requested ahead, as a learner takes them where it can."
        )
    lines.append(
        f"Per s: calls, or transitions inserted by {BY}, all of them stored. Sampled rows are in "
        "the process's memory, with weights; an update is answered, except when prefetched."
    )
    if any(MIRRORED in record.subject for record in records):
        lines.append(
            f"{MIRRORED.capitalize()}: the learner mirrors the table; bytes: all that the server "
            "sent meanwhile, new rows included, over the calls."
        )
    if any("inserting" in record.workload for record in records):
        lines.append(
            f"Inserting: processes beside the learner, each at {SHARE:.0%} of the rate at which "
            f"the same subject inserts by {BY} alone, in slices of {SLICE_S * 1e3:g} ms; two "
            "together at most "
            + " and ".join(f"{work.beside_per_second:,.0f}/s ({name})" for name, work in works)
            + "; into drlnet through blocking UDP sockets, from any core but the one on which its "
            "server polls."
        )
    if any(is_floor(record.subject) for record in records):
        lines.append(
            "Of floor: the p50 of the floor that moves the same bytes at the end of the round over "
            "its own (of insertions the mean), median over the rounds: a memcpy for dpdk:local and "
            "insertions, for udp a bare transfer (64 KB datagrams, no header, into place); of "
            f"{MIRRORED}: a gather of as many items by the same code, with no network."
        )
    if included := tables.included(records, includes):
        lines += ["Peers are used from Python, as is everything here:", *included]
    return lines
