"""Who is measured on which work: our server over each transport, and peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from drlnet.bench.peers import replay as peers
from drlnet.bench.replay.memory import Memory
from drlnet.bench.replay.ours import Ours
from drlnet.bench.shapes import FRAMES, FRAMES_3, SMALL_STEP, WHOLE, Shape
from drlnet.bench.transport.subjects import Subject as Link
from drlnet.bench.transport.subjects import subjects_of as links_of


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
    "atari": Work("atari", {"frames": FRAMES, "frames, 3-step": FRAMES_3, "rows": WHOLE}, 75e3),
}
TRANSPORTS = ("dpdk:local", "udp")


def named(subject: str, form: str) -> str:
    """A subject of ours, or its floor, in that form."""
    return f"{subject}, {form}" if form else subject


def _transport(link: Link) -> str:
    return link.name.removesuffix(f" {link.poll}")


def _ours(link: Link) -> Callable[[Shape], Memory]:
    return partial(Ours, link.listen, link.poll)


def subjects_of(
    work: Work, transports: Sequence[str] | None, against: Sequence[str] | None
) -> list[Subject]:
    """Ours over every transport, what blocks in the usual form alone; then peers. None: all.

    Raises ConfigError for an unknown name.
    """
    links = links_of(TRANSPORTS if transports is None else transports)
    # What blocks last, so that the first is what polls over the first transport named.
    links = [link for link in links if transports is None or _transport(link) in transports]
    links.sort(key=lambda link: (link.poll == "block", _transport(link) == "udp"))
    usual = next(iter(work.forms.values()))
    ours = [
        Subject(
            named(link.name, form),
            partial(_ours, link),
            shape,
            resident=False,
            link=link,
        )
        for form, shape in work.forms.items()
        for link in links
        if shape == usual or link.poll == "busy"
    ]
    return ours + [
        Subject(name, partial(peers.find, name), usual, resident=True)
        for name in peers.named(against)
    ]
