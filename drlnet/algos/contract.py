"""The contract: what an algorithm says about itself, and what the roles ask it for.

A role moves data and knows nothing else. The actor hands rows to the agent, appends the columns
that it gets back, and anchors the items that the agent names. The learner role draws batches, hands
them to the learner, and sends back the priorities that it gets. An evaluator plays the greedy
policy. Everything that makes one algorithm differ from another stands in its own file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    cast,
)

import numpy as np
import numpy.typing as npt

from drlnet.adders.items import Items
from drlnet.client.specs import Column, Item, Limiter, Sampler
from drlnet.config import AlgoSettings, Config, PolicySettings
from drlnet.errors import ConfigError
from drlnet.nets import require_image, stacked_shape

if TYPE_CHECKING:
    import torch

    from drlnet.client import Batch
    from drlnet.envs import EnvSpaces, Rows, Streams

TABLE = "replay"
"""The name of an algorithm's table, where it has only one."""

Columns = Mapping[str, npt.NDArray[Any]]
"""One row of each of M streams: column -> [M, *shape]."""

Acted = tuple[npt.NDArray[np.int64], Mapping[str, Columns]]
"""Actions [M], and what to append to each table."""

Params = Mapping[str, "torch.Tensor"]
"""A network's state dict."""


@dataclass(frozen=True)
class TableSettings:
    """A table that the algorithm keeps at the server, and the batches that its learner draws."""

    columns: Mapping[str, Column]
    item: Item
    capacity: int  # rows
    batch_size: int  # items in a batch
    prefetch: int = 2  # batches that the learner asks for ahead
    sampler: Sampler = field(default_factory=Sampler)
    limiter: Limiter = field(default_factory=Limiter)


class Held(NamedTuple):
    """What a table holds."""

    rows: int
    items: int  # that can be drawn


Priorities = Union[npt.NDArray[np.float32], "torch.Tensor"]
"""New priorities of a batch's items, [B]; a tensor may be one that a GPU is to compute."""


@dataclass(frozen=True)
class Learned:
    """What one learner step yields."""

    figures: Mapping[str, float | torch.Tensor]  # scalars to report; read only when they are
    priorities: Mapping[str, Priorities] = field(default_factory=dict)
    """New ones by table; without an entry they stay."""
    save: bool = False
    """Whether no agent may have these params before the learner's state with them is on disk."""


class Agent(Protocol):
    """Acts in M environments and says what is stored. Not thread-safe.

    One whose tables hold rows of different environments has `masks`, by table: bool [M], whose
    newest rows it takes. One that can compute at a GPU has to(device), as NetPlayer has.
    """

    def load(self, params: Params) -> None:
        """Plays with these params from now on."""

    def act(self, rows: Rows) -> Acted:
        """Actions [M] for these rows, and what to append to each table.

        Where rows.mask is set, the other environments have not moved: their state stays. A LAST
        row takes no action; FIRST rows begin an episode.
        """

    def items(self, steps: Mapping[str, npt.NDArray[np.int64]]) -> Mapping[str, Items]:
        """The items that the rows just appended complete. steps: [M] by table, -1 where masked."""

    def figures(self) -> Mapping[str, float]:
        """What the actor reports of it."""


class Player(Protocol):
    """Plays without recording: an evaluation's greedy policy. Not thread-safe.

    One whose act() reads rows.reward says so: reads_reward = True.
    """

    def load(self, params: Params) -> None:
        """Plays with these params from now on."""

    def act(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Actions [M] for these rows."""


class Learner(Protocol):
    """Turns batches into params. Not thread-safe.

    One that wants a batch of some of its tables only has choose(held), which names them for the
    next step; held(table) is what a table held some draws ago. `over` names the tables that it
    draws from no more: they are dropped.
    """

    steps: int  # taken so far: step() counts

    def step(self, batches: Mapping[str, Batch]) -> Learned:
        """One step on a batch of each table, lent until the next step: copy what you keep."""

    def params(self) -> Params:
        """What agents and players need: published, and kept as the checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """All that the learner needs to go on: params, optimizer, counters."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict of the same settings."""


# Settings of a network that stand in the facts already, or that its params do not depend on.
_NOT_OF_PARAMS = {"name", "frame_stack", "precision"}

S = TypeVar("S", bound=AlgoSettings)


class Algorithm(ABC, Generic[S]):
    """One algorithm with its settings, for one environment's spaces.

    Settings, Policy: the dataclasses behind the sections [algo] and [policy]; without torch.
    defaults: of other settings, by dotted key; a recipe, flags and --set win over them.
    splits_rows: each row is stored in one of the tables, so that env_steps are the sum of theirs.
    stacks_frames: heeds net.frame_stack; else it may be 1 alone.
    """

    Settings: ClassVar[type[AlgoSettings]] = AlgoSettings
    Policy: ClassVar[type[PolicySettings]] = PolicySettings
    defaults: ClassVar[Mapping[str, Any]] = {}
    splits_rows: ClassVar[bool] = False
    stacks_frames: ClassVar[bool] = False

    def __init__(self, config: Config, spaces: EnvSpaces):
        self.config = config
        self.settings = cast(S, config.algo)
        self.spaces = spaces
        require_image(config, spaces)
        if config.net.frame_stack != 1 and not self.stacks_frames:
            raise ConfigError(
                f"net.frame_stack = {config.net.frame_stack}, and algo.name = "
                f"{config.algo.name!r} stacks no frames",
                "set net.frame_stack to 1, or say in the algorithm: stacks_frames = True",
            )

    @property
    def architecture(self) -> str:
        """What params must agree on to be exchanged; travels with every blob and checkpoint."""
        net = self.config.net
        shape = "x".join(map(str, stacked_shape(self.spaces.obs_shape, net.frame_stack)))
        names = [one.name for one in fields(net) if one.name not in _NOT_OF_PARAMS]
        own = [f"{name}={_word(getattr(net, name))}" for name in names]
        facts = [net.name, f"obs={shape}", f"actions={self.spaces.num_actions}", *own]
        return " ".join([self.settings.name, *facts])

    @abstractmethod
    def tables(self) -> Mapping[str, TableSettings]:
        """The tables by name. A step takes a batch of each, unless its learner chooses."""

    @abstractmethod
    def agent(self, streams: Streams) -> Agent:
        """The agent of one actor."""

    @abstractmethod
    def learner(self, device: str, seed: int) -> Learner:
        """The learner. seed: of its initial params, and of all that it draws."""

    @abstractmethod
    def greedy(self, num_envs: int) -> Player:
        """The player of an evaluation, in num_envs environments."""

    def replay(
        self, columns: Mapping[str, Column], item: Item, *, priority_exponent: float = 0.0
    ) -> TableSettings:
        """A table as the section [replay] describes it, with these columns and items."""
        replay = self.config.replay
        return TableSettings(
            columns=columns,
            item=item,
            capacity=replay.capacity,
            batch_size=replay.batch_size,
            prefetch=replay.prefetch,
            sampler=Sampler(
                name=replay.sampler,
                priority_exponent=priority_exponent,
                options=replay.sampler_options,
            ),
            limiter=Limiter(
                min_size=replay.min_size,
                samples_per_insert=replay.samples_per_insert,
                error_buffer=replay.error_buffer or 0.0,
                max_times_sampled=replay.max_times_sampled,
                batch=replay.batch_size,
                prefetch=replay.prefetch,
                append_burst=self.config.append_burst,
            ),
        )


QUEUE_DEFAULTS: Mapping[str, Any] = {
    "replay.sampler": "fifo",
    "replay.max_times_sampled": 1,
    "replay.batch_size": 32,
    "replay.min_size": 1,
    "replay.prefetch": 0,
    "replay.capacity": 0,  # two unrolls of each environment: one waits, one is under way
    "actor.envs_per_actor": 32,
    "actor.fetch_period_steps": 8,
    "learner.publish_period": 1,
}
"""Defaults of an algorithm that learns from each unroll once, while it is fresh."""


def needs_queue(config: Config) -> None:
    """Raises ConfigError where the table keeps what was drawn."""
    if config.replay.max_times_sampled == 0:
        raise ConfigError(
            f"algo.name = {config.algo.name!r} draws each unroll once: its table is a queue",
            "set replay.max_times_sampled to 1, or leave it out",
        )


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    return str(value).lower()
