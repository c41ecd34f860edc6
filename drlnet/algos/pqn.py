r"""PQN: Q(lambda) on fresh unrolls, without a target network (Gallici et al., arXiv 2407.04811).

An unroll is T steps of one stream, over episodes' ends, from a queue: it is drawn once. With the
rewards r, the discounts d (0 where terminated) that arrived with o_t, and the value v_t = max_a
Q(o_t, a), of the actions valid at o_t, that the actor computed when it acted there:

    G_T-1 = r_T   + gamma d_T v_T
    G_t   = r_t+1 + gamma d_t+1 (lambda_t+1 G_t+1 + (1 - lambda_t+1) v_t+1)
    loss  = mean over a minibatch of (Q(o_t, a_t) - G_t)^2 / 2

lambda_t is lambda, but 0 where row t ends its episode. The edges: a terminated episode has d = 0,
so that nothing is bootstrapped; a truncated one bootstraps from its final observation and no
further; a lost life (d = 0, and the rows go on) cuts the return likewise. A LAST row takes no
action and is not a step: no minibatch holds it.

The paper leaves open what happens when actors do not wait for the learner. Here they play with
params that are one or two unrolls old, as the ring has room for no more; v is theirs, so returns
need no second pass of the network. Its networks normalise: net.norm = "layer".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drlnet.adders import (
    Items,
    Stacks,
    UnrollSettings,
    observed,
    transition_columns,
    transition_row,
    unroll_frames,
    unroll_item,
    unroll_items,
)
from drlnet.algos.contract import (
    QUEUE_DEFAULTS,
    TABLE,
    Algorithm,
    Columns,
    Learned,
    TableSettings,
    needs_queue,
)
from drlnet.algos.learners import NetLearner
from drlnet.algos.players import GreedyQ
from drlnet.client import Batch
from drlnet.client.specs import Column, View
from drlnet.config import setting
from drlnet.errors import ConfigError
from drlnet.lazy import torch
from drlnet.nets import OptimizerName, OptimizerSettings, make_net
from drlnet.policies import EpsilonGreedy, EpsilonGreedySettings

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces, Rows, Streams

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PqnSettings(UnrollSettings, OptimizerSettings):
    """Q(lambda) on fresh unrolls: no replay, no target network."""

    trace: float = setting(0.65, "lambda of the returns", low=0, high=1)
    gamma: float = setting(0.99, "discount per step", low=0, high=1)
    epochs: int = setting(2, "passes over a batch of unrolls", low=1)
    minibatch_size: int = setting(128, "steps in a gradient step", low=1)
    reward_clip: float | None = setting(
        None, "rewards are clipped to this size, for learning only", above=0
    )
    optimizer: OptimizerName = setting("radam", "the optimizer")


class Pqn(Algorithm[PqnSettings]):
    """Q(lambda) on unrolls from a queue, with epsilon-greedy actors."""

    Settings = PqnSettings
    Policy = EpsilonGreedySettings
    stacks_frames = True
    defaults = {  # noqa: RUF012
        "net.norm": "layer",
        "policy.epsilon_base": 0.01,
        "policy.epsilon_exponent": 0.0,
        "policy.epsilon_decay_env_steps": 50_000,
        **QUEUE_DEFAULTS,
        "eval.period": 20,
    }

    def __init__(self, config: Config, spaces: EnvSpaces):
        super().__init__(config, spaces)
        parts = config.learner.processes
        steps = config.replay.batch_size * self.settings.unroll // parts
        if self.settings.minibatch_size > steps:
            shared = " / learner.processes" if parts > 1 else ""
            raise ConfigError(
                f"algo.minibatch_size = {self.settings.minibatch_size} exceeds the {steps} steps "
                f"of a batch: replay.batch_size x algo.unroll{shared}",
                f"lower it to {steps}, or raise replay.batch_size or algo.unroll",
            )
        needs_queue(config)

    def tables(self) -> Mapping[str, TableSettings]:
        """A queue of unrolls that neither overlap nor leave gaps."""
        length, stack = self.settings.unroll, self.config.net.frame_stack
        columns = {
            # Values are computed where actions are masked; no mask needs to travel.
            **transition_columns(replace(self.spaces, action_mask=False)),
            "last": Column("bool"),
            "value": Column("float32"),
        }
        extras = {"value": View("value", (1, length))}
        item = unroll_item(self.spaces, length, stack, extras, final_obs=False)
        return {TABLE: self.replay(columns, item)}

    def q_net(self) -> torch.nn.Module:
        """The Q network; its initial params follow from torch's seed."""
        from drlnet.nets.heads import QNet

        return QNet(make_net(self.config, self.spaces), self.spaces.num_actions, dueling=False)

    def agent(self, streams: Streams) -> PqnAgent:
        """An epsilon-greedy agent."""
        return PqnAgent(self, streams)

    def learner(self, device: str, seed: int) -> PqnLearner:
        """A learner on that device."""
        return PqnLearner(self, device, seed)

    def greedy(self, num_envs: int) -> GreedyQ:
        """The action of the largest Q value."""
        return GreedyQ(self.q_net(), Stacks(num_envs, self.config.net.frame_stack))


class PqnAgent(GreedyQ):
    """Explores, and records rows with the values that it acted on."""

    def __init__(self, algo: Pqn, streams: Streams):
        super().__init__(algo.q_net(), Stacks(streams.count, algo.config.net.frame_stack))
        self._policy = EpsilonGreedy(algo.config.policy, streams)
        self._unroll = algo.settings.unroll

    def act(  # type: ignore[override]
        self, rows: Rows
    ) -> tuple[npt.NDArray[np.int64], Mapping[str, Columns]]:
        """Actions [M], and the rows' columns."""
        values = self.values(rows)
        action = self._policy.choose(values, rows.action_mask, rows.mask)
        columns = {
            **transition_row(replace(rows, action_mask=None), action),
            "last": rows.last,
            "value": values.max(1),
        }
        return action, {TABLE: columns}

    def items(self, steps: Mapping[str, npt.NDArray[np.int64]]) -> Mapping[str, Items]:
        """The unrolls whose last step's outcome the newest rows are."""
        return {TABLE: unroll_items(self._unroll, steps[TABLE])}

    def figures(self) -> Mapping[str, float]:
        """The exploration of the greediest environment."""
        return {"epsilon_min": float(self._policy.current.min())}


def lambda_returns(
    reward: Floats, discount: Floats, value: Floats, last: npt.NDArray[np.bool_], gamma: float,
    trace: float,
) -> Floats:  # fmt: skip
    """G [B, T] of the arrays [B, T] that arrived with o_1 .. o_T. See the module's equation."""
    returns = np.empty_like(reward)
    following = value[:, -1]
    for t in reversed(range(reward.shape[1])):
        mixed = value[:, t] + np.where(last[:, t], 0, trace) * (following - value[:, t])
        returns[:, t] = following = reward[:, t] + gamma * discount[:, t] * mixed
    return returns


class PqnLearner(NetLearner[PqnSettings]):
    """One step: all epochs over a batch, in an order of its own. Not thread-safe."""

    def __init__(self, algo: Pqn, device: str, seed: int):
        super().__init__(algo, algo.q_net, device, seed)
        self._stack, self._rng = algo.config.net.frame_stack, np.random.default_rng(seed)
        self.updates = 0

    def step(self, batches: Mapping[str, Batch]) -> Learned:
        """All epochs over a batch of unrolls."""
        batch, settings, stack = batches[TABLE], self.settings, self._stack
        views = observed(self.spaces, batch.views)
        reward, clip = views["reward"], settings.reward_clip
        last = views["last"]
        returns = lambda_returns(
            reward if clip is None else np.clip(reward, -clip, clip),
            views["discount"], views["value"], last[:, stack:], settings.gamma, settings.trace,
        )  # fmt: skip
        obs = torch.from_numpy(views["obs"]).to(self.device).flatten(0, 1)  # [B (T + k - 1), ...]
        frames = torch.from_numpy(unroll_frames(last[:, :-1], stack)).to(self.device)
        taken = torch.from_numpy(views["action"].reshape(-1).astype(np.int64)).to(self.device)
        targets = torch.from_numpy(returns.reshape(-1)).to(self.device)
        acted = np.flatnonzero(~last[:, stack - 1 : -1])  # LAST rows take no action
        losses = []
        for _ in range(settings.epochs):
            order = torch.from_numpy(self._rng.permutation(acted)).to(self.device)
            # Nearly equal in size, and nothing is left over.
            for chosen in order.chunk(max(1, len(order) // settings.minibatch_size)):
                seen = obs.index_select(0, frames[chosen].flatten())
                if stack > 1:
                    seen = seen.view(-1, stack, *seen.shape[1:])
                q = self.online(seen).gather(1, taken[chosen, None]).squeeze(1)
                loss = 0.5 * (q - targets[chosen]).square().mean()
                self.descend(loss, batch)
                losses.append(loss.detach())
                self.updates += 1
        self.steps += 1
        return Learned(
            {
                "loss": torch.stack(losses).mean(),
                "q_mean": q.detach().mean(),
                "updates": self.updates,
                "learning_rate": self.optimizer.learning_rate(batch.env_steps, batch.spent),
            }
        )

    def state_dict(self) -> dict[str, Any]:
        """The network, the optimizer, the counters, and where the generator stands."""
        return {
            **super().state_dict(),
            "updates": self.updates,
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict of the same settings."""
        super().load_state_dict(state)
        self.updates, self._rng.bit_generator.state = int(state["updates"]), state["rng"]
