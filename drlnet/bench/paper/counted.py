"""What passes a server while a learner is measured, by the server's own counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_ASKED = ("sample", "update_priorities", "read_items", "new_priorities")  # a learner's requests


@dataclass(frozen=True)
class Counted:
    """The server's counters at one time, or the difference of two."""

    replies: float = 0.0  # bytes to the learner
    requests: float = 0.0  # bytes from it
    followed: float = 0.0  # bytes of rows to its mirror
    received: float = 0.0  # bytes from all
    asked: float = 0.0  # requests of the learner's, each a round trip
    rows: float = 0.0  # that actors have stored
    busy_s: float = 0.0  # of the server's thread
    calls: float = 0.0  # of the operation that is measured

    def __add__(self, other: Counted) -> Counted:
        return self._with(other, 1.0)

    def __sub__(self, other: Counted) -> Counted:
        return self._with(other, -1.0)

    def _with(self, other: Counted, sign: float) -> Counted:
        return Counted(*(a + sign * b for a, b in zip(_values(self), _values(other), strict=True)))

    @property
    def appended(self) -> float:
        """Bytes that came from others than the learner: from actors."""
        return self.received - self.requests


def _values(counted: Counted) -> list[float]:
    return [getattr(counted, name) for name in Counted.__dataclass_fields__]


def counted(counters: Mapping[str, float], learner: str, reader: str, table: str) -> Counted:
    """From the server's statistics. learner: the name of its session; its mirror's has rows_ before
    it. reader: of these statistics."""

    def all_of(end: str) -> float:
        return sum(
            value
            for name, value in counters.items()
            if name.startswith("transport.") and name.endswith(end)
        )

    return Counted(
        replies=counters.get(f"peer.{learner}.bytes_sent", 0.0),
        requests=counters.get(f"peer.{learner}.bytes_received", 0.0)
        + counters.get(f"peer.rows_{learner}.bytes_received", 0.0),
        followed=counters.get(f"peer.rows_{learner}.bytes_sent", 0.0),
        received=all_of(".bytes_received") - counters.get(f"peer.{reader}.bytes_received", 0.0),
        asked=sum(counters.get(f"server.{op}.handling", 0.0) for op in _ASKED),
        rows=counters.get(f"table.{table}.env_steps", 0.0),
        busy_s=counters.get("server.busy_s", 0.0),
    )
