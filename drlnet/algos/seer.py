r"""SEER: DQN whose lower layers freeze, and whose replay holds what they see (arXiv 2103.02886).

Chen et al., "Improving Computational Efficiency in Visual Reinforcement Learning via Stored
Embeddings", NeurIPS 2021. The network of [net] is the lower part f, the heads with a hidden layer
of `head_units` are the upper part g: Q(o, .) = g(f(o)). After `freeze_learner_steps` f is frozen,
in the target network as well, and from then on a row stores f(o) in float16 instead of o:

    before   loss as in drlnet.algos.dqn, of Q = g(f(o)), from the table "replay"
    after    the same loss, of g(f(o)) from "replay" and of g(e), e = f(o), from "embeddings"; its
             gradient ends at f

A learner step then passes no image through f, back or forward, a row costs two bytes for each
feature of f, and stacked frames are part of what is stored. Targets, edges and priorities are
DQN's: an item of embeddings is the same n steps.

The paper turns the whole replay into embeddings when it freezes. Here it cannot be done in the
network, which knows no f: the second table fills beside the first. Each actor's environment goes
over with its next episode, so that every episode is in one table. The first one counts for as many
rows as a single ring of `replay.capacity` would still hold: with n rows of embeddings, a step is on
them with the probability n / (n + old), old = min(rows of the first table, capacity - n). When old
comes to 0, the first table is dropped, and its memory freed. The tables' limiters are apart, and
nothing is added to the first one any more: replay.samples_per_insert has to be 0.

What it does not help: features that outweigh observations, as of CartPole's four numbers; f frozen
before it has learned what the game's later stages need, which limits the score from then on. Actors
pay for f as before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drlnet.adders import (
    Items,
    NStepErrors,
    Stacks,
    transition_columns,
    transition_item,
    transition_row,
)
from drlnet.algos.contract import TABLE, Columns, Held, Learned, Params, TableSettings
from drlnet.algos.dqn import Dqn, DqnAgent, DqnLearner, DqnSettings
from drlnet.algos.players import GreedyQ, Present
from drlnet.config import setting
from drlnet.errors import ConfigError
from drlnet.lazy import torch
from drlnet.nets import make_net

if TYPE_CHECKING:
    from drlnet.client import Batch
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces, Rows, Streams

EMBEDDINGS = "embeddings"
"""The name of the second table."""

_FROZEN = "frozen"  # in params and state: whether the lower layers are
_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class SeerSettings(DqnSettings):
    """Deep Q-learning that freezes its lower layers and stores what they see."""

    freeze_learner_steps: int = setting(
        10_000, "learner steps after which the network of [net] is frozen", low=1
    )
    head_units: int = setting(128, "units of a hidden layer in each head, which goes on", low=1)


class Seer(Dqn):
    """Deep Q-learning on stored embeddings."""

    settings: SeerSettings
    Settings = SeerSettings
    lambda_returns = False
    splits_rows = True

    def __init__(self, config: Config, spaces: EnvSpaces):
        super().__init__(config, spaces)
        ratio = config.replay.samples_per_insert
        if ratio > 0 or config.replay.max_times_sampled > 0:
            raise ConfigError(
                f"algo.name = {self.settings.name!r} goes on drawing from a table that its actors "
                "have left, and the limiter would hold that",
                "set replay.samples_per_insert and replay.max_times_sampled to 0",
            )

    @property
    def architecture(self) -> str:
        """DQN's, with the width of the heads."""
        return f"{super().architecture} units={self.settings.head_units}"

    @cached_property
    def embedded(self) -> EnvSpaces:
        """The spaces of an environment that shows embeddings."""
        with torch.random.fork_rng(devices=[]):  # only its size is asked for
            features = int(make_net(self.config, self.spaces).features)
        return replace(self.spaces, obs_shape=(features,), obs_dtype="float16", leaves={})

    def tables(self) -> Mapping[str, TableSettings]:
        """The table of observations, and that of embeddings."""
        item = transition_item(self.settings.n_step, 1, self.embedded)
        exponent = self.settings.priority_exponent
        embeddings = self.replay(
            transition_columns(self.embedded), item, priority_exponent=exponent
        )
        return {**super().tables(), EMBEDDINGS: embeddings}

    def q_net(self) -> torch.nn.Module:
        """The Q network; its initial params follow from torch's seed."""
        from drlnet.nets.heads import QNet

        own = self.settings
        torso = make_net(self.config, self.spaces)
        return QNet(torso, self.spaces.num_actions, dueling=own.dueling, units=own.head_units)

    def agent(self, streams: Streams) -> SeerAgent:
        """An epsilon-greedy agent."""
        return SeerAgent(self, streams)

    def learner(self, device: str, seed: int) -> SeerLearner:
        """A learner on that device."""
        return SeerLearner(self, device, seed)

    def greedy(self, num_envs: int) -> SeerGreedy:
        """The action of the largest Q value."""
        return SeerGreedy(self.q_net(), Stacks(num_envs, self.config.net.frame_stack))


class SeerGreedy(GreedyQ):
    """Plays the action of the largest Q value. Not thread-safe."""

    def load(self, params: Params) -> None:
        """Plays with these params from now on."""
        own = dict(params)
        own.pop(_FROZEN, None)
        super().load(own)


class SeerAgent(DqnAgent):
    """Explores; stores rows with observations, or, of episodes begun since, with embeddings."""

    def __init__(self, algo: Seer, streams: Streams):
        super().__init__(algo, streams)
        own = algo.settings
        self._embedding_errors = NStepErrors(streams.count, own.n_step, own.gamma, own.reward_clip)
        self._frozen = False
        self._embeds = np.zeros(streams.count, np.bool_)  # whose episode is stored as embeddings
        self.masks: dict[str, npt.NDArray[np.bool_]] = {}

    def load(self, params: Params) -> None:
        """Plays with these params from now on."""
        own = dict(params)
        self._frozen = bool(own.pop(_FROZEN, False))
        super().load(own)

    def values(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Q values [M, num_actions], -inf of actions that are not valid; keeps what f sees."""
        if self._stacks is not None:
            rows = self._stacks.push(rows)
        present = Present(rows, self.device)
        with torch.inference_mode():
            features = self.net.torso(present.of(rows.obs))  # type: ignore[operator]
            values = present.spread(self.net.values(features))  # type: ignore[operator]
            self._features = present.spread(features.clamp(-_LARGEST, _LARGEST).half())
        if rows.action_mask is not None:
            values = np.where(rows.action_mask, values, np.float32(-np.inf))
        return values

    def act(  # type: ignore[override]
        self, rows: Rows
    ) -> tuple[npt.NDArray[np.int64], Mapping[str, Columns]]:
        """Actions [M], and the rows' columns for the table that each goes to."""
        self._rows, self._values = rows, self.values(rows)
        action = self._policy.choose(self._values, rows.action_mask, rows.mask)
        there = np.ones(len(action), np.bool_) if rows.mask is None else rows.mask
        self._embeds[rows.first & there] = self._frozen
        embedded = replace(rows, obs=self._features, leaves=None)
        every = {TABLE: (there & ~self._embeds, rows), EMBEDDINGS: (there & self._embeds, embedded)}
        self.masks = {name: mask for name, (mask, _) in every.items() if mask.any()}
        self._stored = {name: transition_row(every[name][1], action) for name in self.masks}
        return action, self._stored

    def items(self, steps: Mapping[str, npt.NDArray[np.int64]]) -> Mapping[str, Items]:
        """The items whose n steps, or whose episode, the newest rows end."""
        errors = {TABLE: self._errors, EMBEDDINGS: self._embedding_errors}
        last, values = self._rows.last, self._values
        return {
            name: errors[name].push(self._stored[name], last, steps[name], values, mask)
            for name, mask in self.masks.items()
        }


class SeerLearner(DqnLearner):
    """DQN's step, of which the lower layers take part until they are frozen. Not thread-safe."""

    settings: SeerSettings

    def __init__(self, algo: Seer, device: str, seed: int):
        super().__init__(algo, device, seed)
        self._embedded, self._replay = algo.embedded, algo.config.replay
        self._on_embeddings = False
        self._owed = 0.0  # steps on embeddings, by their share of the items
        self.frozen = False
        self.over: Collection[str] = ()

    def choose(self, held: Callable[[str], Held]) -> Collection[str]:
        """The table that the next step draws from: see the module's text."""
        if not self.frozen:
            return (TABLE,)
        if self.over:
            return (EMBEDDINGS,)
        new = held(EMBEDDINGS)
        old = min(held(TABLE).rows, max(0, self._replay.capacity - new.rows))
        if old == 0:
            self.over = (TABLE,)
            return (EMBEDDINGS,)
        if new.items < self._replay.min_size:
            return (TABLE,)
        self._owed += new.rows / (new.rows + old)
        if self._owed < 1:
            return (TABLE,)
        self._owed -= 1
        return (EMBEDDINGS,)

    def seen_as(self, table: str) -> EnvSpaces:
        """The spaces of what a table holds."""
        return self._embedded if table == EMBEDDINGS else self.spaces

    def values(self, net: torch.nn.Module, seen: torch.Tensor) -> torch.Tensor:
        """Q values [n, num_actions] of observations, or of embeddings."""
        if self._on_embeddings:
            features = seen.float()
        else:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
                features = net.torso(seen)  # type: ignore[operator]
        q: torch.Tensor = net.values(features)  # type: ignore[operator]
        return q

    def freeze(self) -> None:
        """Freezes f as it is, in both networks."""
        self.frozen = True
        frozen: Any = self.online.torso
        frozen.eval().requires_grad_(False)
        for param in frozen.parameters():
            param.grad = None  # of the last step: the optimizer leaves out what has none
        self.target.torso.load_state_dict(frozen.state_dict())  # type: ignore[union-attr]

    def step(self, batches: Mapping[str, Batch]) -> Learned:
        """One gradient step on a batch of one of the tables."""
        self._on_embeddings = EMBEDDINGS in batches
        learned = super().step(batches)
        freezes = not self.frozen and self.steps >= self.settings.freeze_learner_steps
        if freezes:
            self.freeze()
        figures = {**learned.figures, _FROZEN: float(self.frozen)}
        # Once actors embed by this f, a learner that restarts must go on with no other.
        return replace(learned, figures=figures, save=freezes)

    def params(self) -> Params:
        """The online network's, and whether its lower layers are frozen."""
        return {**super().params(), _FROZEN: torch.tensor(self.frozen)}

    def state_dict(self) -> dict[str, Any]:
        """DQN's, and whether the lower layers are frozen."""
        return {**super().state_dict(), _FROZEN: self.frozen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict of the same settings, but for freeze_learner_steps."""
        super().load_state_dict(state)
        # Older states do not say it.
        if state.get(_FROZEN, self.steps >= self.settings.freeze_learner_steps):
            self.freeze()
