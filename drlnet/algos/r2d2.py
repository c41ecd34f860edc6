r"""R2D2: recurrent Q-learning on sequences (Kapturowski et al., ICLR 2019; SEED RL's version).

An item is m = min(length, steps left) steps of one episode, anchored at every period-th step of it.
With h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x, k = min(n, m - t), and the rewards r and discounts
d (0 where terminated) that arrived with the rows:

    y_t      = h(sum_{i=1..k} gamma^(i-1) (d_t+1 ... d_t+i-1) r_t+i
                 + gamma^k (d_t+1 ... d_t+k) h^-1(Q'(o_t+k, argmax_a Q(o_t+k, a))))
    delta_t  = y_t - Q(o_t, a_t)           for burn_in <= t < m
    loss     = mean over items of  w sum_t delta_t^2 / 2,   divided by the batch's mean step count
    priority = eta max_t |delta_t| + (1 - eta) mean_t |delta_t|

The edges: steps behind m are padding that nothing counts. A terminated episode bootstraps nothing;
a truncated one from its final observation; a sequence that its length ends, with fewer than n steps
left, from its last row. An episode's first sequence begins with the true state, zeros: it has no
burn-in, so that episodes shorter than it are learned from. Elsewhere the burn-in's rows make the
state and take no gradient.

The state at an anchor is stored in `period` parts, one in each of the rows from the anchor on: a
row costs 1 / period of it. An anchor with fewer steps left, or with none behind its burn-in, makes
no item: the sequence before it counts these steps, as period <= length - burn_in and period <=
(length + 1) / 2.

The paper leaves open by which target the first priorities are found: here they are the actor's own,
of the Q values that it acted on, with its params as the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from drlnet.adders import Items, Tensors, observation_columns, observation_views, tensors
from drlnet.algos.contract import TABLE, Algorithm, Columns, Learned, TableSettings
from drlnet.algos.learners import TargetNetLearner
from drlnet.algos.players import NetPlayer, Present
from drlnet.client import Batch, importance_weights
from drlnet.client.specs import Column, Item, View
from drlnet.config import setting
from drlnet.errors import ConfigError
from drlnet.lazy import torch
from drlnet.nets import OptimizerSettings, make_net
from drlnet.policies import EpsilonGreedy, EpsilonGreedySettings

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces, Rows, Streams

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class R2d2Settings(OptimizerSettings):
    """Recurrent Q-learning on sequences with stored state."""

    core: Literal["lstm", "gru"] = setting("lstm", "the recurrent layer")
    units: int = setting(128, "its units", low=1)
    length: int = setting(80, "steps of a sequence", low=1, high=4096)
    period: int = setting(40, "steps between the beginnings of sequences", low=1)
    burn_in: int = setting(40, "first steps of a sequence that only make the state", low=0)
    stored_state: bool = setting(True, "sequences begin with the actor's state; false: zeros")
    n_step: int = setting(5, "steps of reward before the bootstrap", low=1)
    gamma: float = setting(0.997, "discount per step", low=0, high=1)
    rescale_epsilon: float = setting(1e-3, "eps of the value rescaling h", above=0)
    dueling: bool = setting(True, "separate value and advantage streams")
    target_period: int = setting(100, "learner steps between copies to the target net", low=1)
    priority_exponent: float = setting(0.9, "alpha: stored priority is p^alpha", low=0, high=4)
    priority_max_share: float = setting(0.9, "eta of the priorities", low=0, high=1)
    importance_exponent: float = setting(0.6, "beta of the importance weights", low=0)

    @property
    def horizon(self) -> int:
        """The steps of a sequence."""
        return self.length

    @property
    def state_size(self) -> int:
        """Numbers in a state."""
        return self.units * (2 if self.core == "lstm" else 1)

    @property
    def state_part(self) -> int:
        """Numbers of it in a row."""
        return -(-self.state_size // self.period)


class R2d2(Algorithm[R2d2Settings]):
    """Recurrent Q-learning on prioritized sequences, with epsilon-greedy actors."""

    Settings = R2d2Settings
    Policy = EpsilonGreedySettings
    defaults = {  # noqa: RUF012
        "replay.capacity": 100_000,
        "replay.min_size": 200,  # 8,000 steps
        "replay.samples_per_insert": 8.0,
        "replay.batch_size": 32,
    }

    def __init__(self, config: Config, spaces: EnvSpaces):
        super().__init__(config, spaces)
        settings = self.settings
        most = min(settings.length - settings.burn_in, (settings.length + 1) // 2)
        if most < 1:
            raise ConfigError(
                f"algo.burn_in = {settings.burn_in} leaves nothing to learn of sequences of "
                f"algo.length = {settings.length} steps",
                "set algo.burn_in below algo.length",
            )
        if settings.period > most:
            raise ConfigError(
                f"algo.period = {settings.period} leaves out steps: sequences of {settings.length} "
                f"steps with a burn-in of {settings.burn_in} may begin {most} steps apart at most",
                f"set algo.period to {most} or less: algo.length - algo.burn_in, and half of "
                "algo.length for the tails of episodes",
            )

    @property
    def architecture(self) -> str:
        """The network's, with its core and its heads."""
        own = self.settings
        dueling = str(own.dueling).lower()
        return f"{super().architecture} core={own.core} units={own.units} dueling={dueling}"

    def tables(self) -> Mapping[str, TableSettings]:
        """One table of sequences within episodes."""
        settings = self.settings
        columns = {
            **observation_columns(self.spaces),
            "previous_action": Column("int32"),
            "reward": Column("float32"),
            "discount": Column("float32"),
            "state": Column("float32", (settings.state_part,)),
        }
        whole = (0, settings.length)
        views = {
            **observation_views(self.spaces, "obs", View("obs", whole)),
            "previous_action": View("previous_action", whole),
            "reward": View("reward", whole, pad="zero"),
            "discount": View("discount", whole, pad="zero"),
            "state": View("state", (0, settings.period - 1), pad="zero"),
        }
        if self.spaces.action_mask:
            columns["action_mask"] = Column("bool", (self.spaces.num_actions,))
            views["action_mask"] = View("action_mask", whole)
        item = Item(views, period=settings.period)
        exponent = settings.priority_exponent
        return {TABLE: self.replay(columns, item, priority_exponent=exponent)}

    def q_net(self) -> torch.nn.Module:
        """The Q network; its initial params follow from torch's seed."""
        from drlnet.nets.recurrent import RecurrentQNet

        own, torso = self.settings, make_net(self.config, self.spaces)
        return RecurrentQNet(
            torso, self.spaces.num_actions, own.core, own.units, dueling=own.dueling
        )

    def agent(self, streams: Streams) -> R2d2Agent:
        """An epsilon-greedy agent."""
        return R2d2Agent(self, streams)

    def learner(self, device: str, seed: int) -> R2d2Learner:
        """A learner on that device."""
        return R2d2Learner(self, self.q_net, device, seed)

    def greedy(self, num_envs: int) -> RecurrentGreedy:
        """The action of the largest Q value."""
        return RecurrentGreedy(self, num_envs)


class RecurrentGreedy(NetPlayer):
    """Plays the action of the largest Q value, with a state by environment. Not thread-safe."""

    reads_reward = True

    def __init__(self, algo: R2d2, num_envs: int):
        super().__init__(algo.q_net())
        self._state = np.zeros((num_envs, algo.settings.state_size), np.float32)
        self._action = np.full(num_envs, -1, np.int32)  # the one before the next row

    def begin(self, rows: Rows) -> None:
        """Forgets what was before FIRST rows."""
        first = rows.first if rows.mask is None else rows.first & rows.mask
        self._state[first], self._action[first] = 0, -1

    def values(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Q values [M, num_actions], -inf of actions that are not valid; moves the states on."""
        present = Present(rows, self.device)
        seen = (rows.obs, self._action, rows.reward)
        with torch.inference_mode():
            q, state = self.net(
                *(present.of(part).unsqueeze(1) for part in seen), present.of(self._state)
            )
        values: npt.NDArray[np.float32] = present.spread(q.squeeze(1))
        moved = np.ones(len(values), bool) if rows.mask is None else rows.mask
        self._state = np.where(moved[:, None], present.spread(state), self._state)
        if rows.action_mask is not None:
            values = np.where(rows.action_mask, values, np.float32(-np.inf))
        return values

    def took(self, rows: Rows, action: npt.NDArray[np.int64]) -> None:
        """Keeps the actions for the next rows."""
        moved = np.ones(len(action), bool) if rows.mask is None else rows.mask
        self._action = np.where(moved, action, self._action).astype(np.int32)

    def act(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Actions [M]."""
        self.begin(rows)
        action: npt.NDArray[np.int64] = self.values(rows).argmax(1)
        self.took(rows, action)
        return action


class R2d2Agent(RecurrentGreedy):
    """Explores, and records rows with the parts of the states at anchors."""

    def __init__(self, algo: R2d2, streams: Streams):
        super().__init__(algo, streams.count)
        self._settings = algo.settings
        self._policy = EpsilonGreedy(algo.config.policy, streams)
        self._step = np.full(streams.count, -1)  # of the newest row in its episode
        size = (streams.count, algo.settings.period, algo.settings.state_part)
        self._anchored = np.zeros(size, np.float32)  # the states at the newest anchors
        # What was seen last: row t of an episode at t % (length + 1).
        self._width = algo.settings.length + 1
        seen = ("reward", "discount", "value", "taken")
        self._seen = {name: np.zeros((streams.count, self._width), np.float32) for name in seen}

    def act(  # type: ignore[override]
        self, rows: Rows
    ) -> tuple[npt.NDArray[np.int64], Mapping[str, Columns]]:
        """Actions [M], and the rows' columns."""
        self.begin(rows)
        self._rows, count = rows, len(rows.last)
        moved = np.ones(count, bool) if rows.mask is None else rows.mask
        self._step = np.where(moved, np.where(rows.first, 0, self._step + 1), self._step)
        part = self._step % self._settings.period
        anchors = np.flatnonzero(moved & (part == 0))
        flat = self._anchored.reshape(count, -1)
        flat[anchors, : self._settings.state_size] = self._state[anchors]
        columns = {
            **(rows.leaves if rows.leaves is not None else {"obs": rows.obs}),
            "previous_action": self._action.copy(),
            "reward": rows.reward,
            "discount": np.where(rows.terminated, np.float32(0), np.float32(1)),
            "state": self._anchored[np.arange(count), part],
        }
        if rows.action_mask is not None:
            columns["action_mask"] = rows.action_mask
        values = self.values(rows)
        action = self._policy.choose(values, rows.action_mask, rows.mask)
        self.took(rows, action)
        streams = np.flatnonzero(moved)
        place = streams, self._step[streams] % self._width
        self._seen["reward"][place] = rows.reward[streams]
        self._seen["discount"][place] = columns["discount"][streams]
        self._seen["value"][place] = values[streams].max(1)
        self._seen["taken"][place] = values[streams, action[streams]]
        return action, {TABLE: columns}

    def items(self, steps: Mapping[str, npt.NDArray[np.int64]]) -> Mapping[str, Items]:
        """The sequences whose steps, or whose episode, the newest rows end."""
        length, period = self._settings.length, self._settings.period
        least = max(period, self._settings.burn_in + 1)  # steps of an episode's later sequences
        ready: list[tuple[int, int]] = []  # streams, and anchors as steps of their episodes
        for stream in np.flatnonzero(steps[TABLE] >= 0).tolist():
            step = int(self._step[stream])
            low = step - length
            if low >= 0 and low % period == 0:
                ready.append((stream, low))
            if self._rows.last[stream]:
                begin = max(0, low // period + 1) * period
                anchors = range(begin, step, period)
                ready += [(stream, a) for a in anchors if a == 0 or step - a >= least]
        if not ready:
            return {TABLE: Items(np.empty(0, np.int64), np.empty(0, np.int64))}
        streams, anchors_at = np.array(ready, np.int64).T
        lengths = np.minimum(length, self._step[streams] - anchors_at)
        numbers = steps[TABLE][streams] - self._step[streams] + anchors_at
        return {TABLE: Items(streams, numbers, self._priorities(streams, anchors_at, lengths))}

    def _priorities(
        self, streams: Integers, anchors: Integers, lengths: Integers
    ) -> npt.NDArray[np.float32]:
        """First priorities of sequences, by the values that this agent acted on."""
        settings = self._settings
        rows = anchors[:, None] + np.minimum(np.arange(self._width), lengths[:, None])
        reward, discount, value, taken = (
            torch.from_numpy(seen[streams[:, None], rows % self._width])
            for seen in self._seen.values()
        )
        length = torch.from_numpy(lengths)
        goal = targets(value, reward[:, 1:], discount[:, 1:], length, settings)
        counted = counted_steps(length, torch.from_numpy(anchors == 0), settings)
        return priorities(goal - taken[:, :-1], counted, settings.priority_max_share).numpy()

    def figures(self) -> Mapping[str, float]:
        """The exploration of the greediest environment."""
        return {"epsilon_min": float(self._policy.current.min())}


def rescale(x: torch.Tensor, epsilon: float) -> torch.Tensor:
    """h of the module's equations."""
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + epsilon * x


def unscale(x: torch.Tensor, epsilon: float) -> torch.Tensor:
    """h^-1 of the module's equations; in float64, which its differences need."""
    wide = x.double()
    root = (1 + 4 * epsilon * (wide.abs() + 1 + epsilon)).sqrt()
    return (wide.sign() * (((root - 1) / (2 * epsilon)).square() - 1)).to(x.dtype)


def targets(
    value: torch.Tensor, reward: torch.Tensor, discount: torch.Tensor, length: torch.Tensor,
    settings: R2d2Settings,
) -> torch.Tensor:  # fmt: skip
    """y [B, L]. value: [B, L + 1], to bootstrap from; reward, discount: [B, L], of rows 1 .. L."""
    steps = reward.shape[1]
    ahead = unscale(value, settings.rescale_epsilon)
    at = torch.arange(steps, device=value.device).expand_as(reward)
    total, factor = torch.zeros_like(reward), torch.ones_like(reward)
    for i in range(min(settings.n_step, steps)):
        inside = at + i < length[:, None]
        index = (at + i).clamp(max=steps - 1)
        total = total + torch.where(inside, factor * reward.gather(1, index), 0.0)
        factor = torch.where(inside, factor * settings.gamma * discount.gather(1, index), factor)
    end = torch.minimum(at + settings.n_step, length[:, None])
    return rescale(total + factor * ahead.gather(1, end), settings.rescale_epsilon)


def counted_steps(
    length: torch.Tensor, start: torch.Tensor, settings: R2d2Settings
) -> torch.Tensor:
    """Which steps the loss counts, [B, L]. length: [B]; start [B]: whose state needs no burn-in."""
    at = torch.arange(settings.length, device=length.device)
    return (at < length[:, None]) & (start[:, None] | (at >= settings.burn_in))


def priorities(error: torch.Tensor, counted: torch.Tensor, share: float) -> torch.Tensor:
    """Priorities [B] of errors [B, L], of the steps that count; 0 where none does."""
    size = torch.where(counted, error.abs(), 0.0)
    return share * size.amax(1) + (1 - share) * size.sum(1) / counted.sum(1).clamp(min=1)


class R2d2Learner(TargetNetLearner[R2d2Settings]):
    """One step: the module's loss on a batch of sequences. Not thread-safe."""

    def values(self, net: torch.nn.Module, view: Tensors, start: torch.Tensor) -> torch.Tensor:
        """Q values [B, L + 1, num_actions]; start [B]: whose state needs no burn-in."""
        settings = self.settings
        state = view["state"].flatten(1)[:, : settings.state_size]
        if not settings.stored_state:
            state = torch.zeros_like(state)
        names, cut = ("obs", "previous_action", "reward"), settings.burn_in
        if cut == 0:
            values: torch.Tensor = net(*(view[name] for name in names), state)[0]
            return values
        warm, state = net(*(view[name][:, :cut] for name in names), state)
        state = torch.where(start[:, None], state, state.detach())
        rest, _ = net(*(view[name][:, cut:] for name in names), state)
        return torch.cat([warm, rest], 1)

    def step(self, batches: Mapping[str, Batch]) -> Learned:
        """One gradient step on a batch."""
        batch, settings = batches[TABLE], self.settings
        weights = torch.from_numpy(importance_weights(batch, settings.importance_exponent))
        view = tensors(batch, self.device, self.spaces)
        start = view["previous_action"][:, 0] < 0
        q = self.values(self.online, view, start)
        with torch.no_grad():
            choose = q.detach()
            if "action_mask" in view:
                choose = choose.masked_fill(~view["action_mask"], -torch.inf)
            best = choose.argmax(2, keepdim=True)
            value = self.values(self.target, view, start).gather(2, best).squeeze(2)
            reward, discount = view["reward"][:, 1:], view["discount"][:, 1:]
            goal = targets(value, reward, discount, view["length"], settings)
        action = view["previous_action"][:, 1:].long().clamp(min=0).unsqueeze(2)
        error = goal - q[:, :-1].gather(2, action).squeeze(2)
        counted = counted_steps(view["length"], start, settings)
        losses = torch.where(counted, error.square() / 2, 0.0).sum(1)
        loss = (weights.to(self.device) * losses).sum() / counted.sum().clamp(min=1)
        self.descend(loss, batch)
        self.end_step(settings.target_period)
        new = priorities(error.detach(), counted, settings.priority_max_share)
        return Learned(
            {"loss": loss.detach(), "q_mean": unscale(value, settings.rescale_epsilon).mean()},
            {TABLE: new if new.is_cuda else new.cpu().numpy()},
        )
