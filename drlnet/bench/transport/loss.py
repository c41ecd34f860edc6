"""What lost datagrams leave of kernel UDP between namespaces: the same operations over the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from drlnet.bench import show as tables
from drlnet.bench.records import Ratio, Record, key_of, ratios_of
from drlnet.bench.transport.suite import Subject
from drlnet.errors import ConfigError
from drlnet.plots import Axis, Figure, Line

_MOST = 0.5
_SHARE = "of lossless"
_CAPTION = (
    f'"{_SHARE}": the rate over that without loss in the same round, median over the rounds. The '
    "kernel (nftables) loses each datagram by itself, in either direction; appended and sampled "
    "bytes have several requests under way, all else one."
)


def losses_in(words: Sequence[str]) -> list[float]:
    """The shares, in ascending order. Raises ConfigError."""
    try:
        losses = sorted({float(word) for word in words})
    except ValueError:
        losses = []
    if not losses or not 0 < losses[0] <= losses[-1] <= _MOST:
        raise ConfigError(
            f"'{','.join(words)}' is not a list of shares above 0 and up to {_MOST:g}",
            "give for example --loss 0.001,0.01,0.1",
        )
    return losses


def lossy_too(subjects: Sequence[Subject], losses: Sequence[float]) -> list[Subject]:
    """Those between two kernels, and each once more with each loss."""
    kernels = [subject for subject in subjects if subject.listen == subject.connect]
    return [
        one
        for subject in kernels
        for one in (
            subject,
            *(replace(subject, name=f"{subject.name}, {loss} lost", loss=loss) for loss in losses),
        )
    ]


def shares(records: Sequence[Record], subjects: Sequence[Subject]) -> list[Ratio]:
    """Each lossy record's rate over that of its subject without loss."""
    lossless = {
        other.name: subject.name
        for subject in subjects
        if not subject.loss
        for other in subjects
        if other.loss and replace(other, name=subject.name, loss=0.0) == subject
    }
    slower = ratios_of(
        records,
        lambda record: (lossless.get(record.subject, ""), record.op, record.workload),
        "mean_us",
    )
    return [replace(one, ratio=1 / one.ratio, low=1 / one.high, high=1 / one.low) for one in slower]


def show(records: Sequence[Record], kept: Sequence[Ratio], *, file: TextIO) -> None:
    """Prints it: in colour on a terminal, plain elsewhere."""
    words = {key_of(one): f"{one.ratio:.0%}" for one in kept}
    tables.show(records, {_SHARE: tables.column(words)}, [_CAPTION], file=file)


def plot(kept: Sequence[Ratio], subjects: Sequence[Subject]) -> Figure:
    """A line per operation over the loss, a panel per way to poll."""
    lossless = [subject.name for subject in subjects if not subject.loss]
    loss_of = {subject.name: subject.loss for subject in subjects}
    losses = sorted({*loss_of.values()} - {0.0})
    figure = Figure("What loss leaves of the rate", panels=lossless, share_y=True)
    found = {(one.baseline, loss_of[one.subject], one.op, one.workload): one.ratio for one in kept}
    cells = list(dict.fromkeys((one.op, one.workload) for one in kept))
    for name in lossless:
        lines = {}
        for op, workload in cells:
            rates = [found.get((name, loss, op, workload), float("nan")) for loss in losses]
            lines[f"{op}, {workload}"] = Line(losses, rates)
        x, y = Axis("share of the datagrams lost, each way", log=10), Axis("rate over lossless")
        figure.lines(name, lines, x=x, y=y)
    return figure
