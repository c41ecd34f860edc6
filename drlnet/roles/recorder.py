"""What acts for environments and stores what they see: an agent, and the writers of its rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from drlnet.adders import Items
from drlnet.algos import Agent, Algorithm, returned
from drlnet.client import Client, Writer
from drlnet.config import Config
from drlnet.envs import Rows, Streams
from drlnet.errors import BadPriority, ReplayTimeout, TableDropped
from drlnet.metrics.stages import Stages
from drlnet.roles.divergence import refused
from drlnet.roles.tables import open_tables

_FLUSH_INTERVAL_S = 0.005  # experience older than this leaves, however few rows there are
_NEVER_S = 1e6
_SAY_HELD_S = 5.0  # a learner that evaluates or compiles draws none for a while, too


class Recorder:
    """Acts by one agent for the environments of one actor, or of several. Not thread-safe.

    Each actor has a place among the agent's streams: with E = actor.envs_per_actor, those of place
    p are p E .. (p + 1) E - 1. It has writers of its own for as long as it is there.
    held: told how long the limiter has held an append.
    """

    def __init__(
        self,
        config: Config,
        client: Client,
        algorithm: Algorithm[Any],
        stages: Stages,
        held: Callable[[float], None] | None,
    ):
        self._config, self._algorithm, self._stages = config, algorithm, stages
        self._held = held
        self._tables = open_tables(client, algorithm)
        self.writers: dict[int, dict[str, Writer]] = {}  # by place, by table
        self.agent: Agent | None = None
        self.items_added = 0

    def join(self, place: int) -> Writer:
        """Leases the streams of that place; returns the writer of its first table."""
        actor = self._config.actor
        self.writers[place] = {}
        for name, table in self._tables.items():
            try:
                self.writers[place][name] = table.writer(
                    actor.envs_per_actor,
                    flush_rows=actor.flush_rows * actor.envs_per_actor,  # rows, not vector steps
                    # A clock that splits appends would decide in which order rows lie in the ring.
                    flush_interval_s=_NEVER_S if self._config.run.serial else _FLUSH_INTERVAL_S,
                    held=self._held,
                )
            except TableDropped:
                if not self._algorithm.splits_rows:
                    raise
        return next(iter(self.writers[place].values()))

    def make_agent(self, streams: Streams, params: Mapping[str, Any]) -> None:
        """Makes the agent of these streams; the one before it is forgotten."""
        self.agent = returned.made(self._algorithm, "agent", streams)
        if params:  # none when the actor was stopped while it waited for them
            self.agent.load(params)

    def leave(self, place: int, *, stores: bool = True) -> None:
        """Stores what was appended, if it `stores`, and gives the streams of that place back.

        A released stream is broken: items that wait for more of its rows retire.
        """
        self._all("close" if stores else "release", [place])
        del self.writers[place]

    def record(self, rows: Rows, places: Collection[int]) -> npt.NDArray[np.int64]:
        """Acts on rows, and stores those of these places."""
        assert self.agent is not None, "make_agent() makes it"
        return self.store(rows, self.agent.act(rows), places)

    def store(self, rows: Rows, acted: Any, places: Collection[int]) -> npt.NDArray[np.int64]:
        """Appends what the agent's newest act() said of rows, with the items that they complete.

        acted: what act() returned, whose actions this returns. Raises UserCodeError for a table
        that the algorithm does not keep: only a table that it keeps can have been dropped.
        """
        agent, stages, each = self.agent, self._stages, self._config.actor.envs_per_actor
        assert agent is not None, "make_agent() makes it"
        stages.ended("policy")
        action, appended = returned.acted(self._algorithm, self._tables, acted)
        steps = {name: np.full(len(rows.last), -1) for name in appended}
        masks = getattr(agent, "masks", {})
        for place in places:
            own = slice(place * each, (place + 1) * each)
            for name, columns in appended.items():
                mask = masks.get(name, rows.mask)
                taken = self._unless_dropped(
                    place,
                    name,
                    "append",
                    {column: values[own] for column, values in columns.items()},
                    rows.first[own],
                    rows.last[own],
                    None if mask is None else mask[own],
                )
                if taken is not None:
                    steps[name][own] = taken
        stages.ended("append")
        ready = returned.completed(self._algorithm, self._tables, agent.items(steps))
        stages.ended("other")
        for name, items in ready.items():
            if len(items.steps):
                self._add(name, items, places)
                stages.ended("append")
        return action

    def flush(self) -> None:
        """Waits until the server holds all that was appended."""
        self._all("flush", self.writers)

    def release(self) -> None:
        """Gives all streams back; what was not flushed is dropped."""
        self._all("release", self.writers)

    def _all(self, call: str, places: Collection[int]) -> None:
        for place in places:
            for name in list(self.writers[place]):
                self._unless_dropped(place, name, call)

    def _unless_dropped(self, place: int, name: str, call: str, *given: Any) -> Any:
        """What a writer's method returns; None once its learner has dropped its table."""
        writer = self.writers[place].get(name)
        if writer is None:
            return None
        try:
            return getattr(writer, call)(*given)
        except TableDropped:
            if not self._algorithm.splits_rows:
                raise
            del self.writers[place][name]
            return None

    def _add(self, name: str, items: Items, places: Collection[int]) -> None:
        each = self._config.actor.envs_per_actor
        for place in places:
            own = items.streams // each == place
            priorities = None if items.priorities is None else items.priorities[own]
            streams = items.streams[own] - place * each
            try:
                self._unless_dropped(
                    place, name, "add_items", streams, items.steps[own], priorities
                )
            except BadPriority as error:
                raise refused(self._config, error) from error
        self.items_added += len(items.steps)


class Held:
    """What a role does while the limiter holds its append: says it once, and waits."""

    def __init__(self, config: Config, server: str, note: Callable[[str], None]):
        self._max_wait_s, self._note, self._said = config.actor.max_wait_s, note, False
        self._remedy = f"start `drlnet learn {config.env.id} --server {server}`"

    def __call__(self, seconds: float) -> None:
        cause = "the limiter holds appends: no learner has drawn"
        if self._max_wait_s is not None and seconds >= self._max_wait_s:
            raise ReplayTimeout(
                f"{cause} for {seconds:.3g} s", f"{self._remedy}, or raise actor.max_wait_s"
            )
        if seconds >= _SAY_HELD_S and not self._said:
            self._said = True
            self._note(f"{cause} for {seconds:.0f} s; playing waits\n  try: {self._remedy}")
