"""The subjects of a comparison: a transport and a way to poll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from drlnet.config.names import chosen
from drlnet.config.transports import LISTEN

Poll = Literal["block", "busy"]
BASELINE = "udp"


@dataclass(frozen=True)
class Subject:
    """One row of the results; server and client poll in the same way.

    connect: what the client types, where that is not what the server says.
    """

    name: str
    listen: str
    poll: Poll
    connect: str | None = None

    @property
    def polling_threads(self) -> int:
        return 2 if self.poll == "busy" else 0


def subjects_of(transports: Sequence[str] | None) -> list[Subject]:
    """Kernel UDP, blocking and polled, and each other transport polled. None: all there are.

    Each is tried; one that cannot be had here says why. Raises ConfigError for an unknown name.
    """
    wanted = chosen("transport", transports, list(LISTEN))
    polls: tuple[Poll, ...] = ("block", "busy")
    subjects = [Subject(f"{BASELINE} {poll}", LISTEN[BASELINE], poll) for poll in polls]
    others = [name for name in wanted if name != BASELINE]
    return subjects + [Subject(f"{name} busy", LISTEN[name], "busy") for name in others]
