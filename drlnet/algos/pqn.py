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
    observed,
    transition_columns,
    transition_row,
    unroll_frames,
    unroll_item,
    unroll_items,
)
from drlnet.algos.contract import (
    TABLE,
    Algorithm,
    Columns,
    Learned,
    Params,
    TableSettings,
    needs_queue,
)
from drlnet.algos.dqn import GreedyQ
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
class PqnSettings(OptimizerSettings):
    """Q(lambda) on fresh unrolls: no replay, no target network."""

    unroll: int = setting(32, "steps of an unroll", low=1, high=4096)
    trace: float = setting(0.65, "lambda of the returns", low=0, high=1)
    gamma: float = setting(0.99, "discount per step", low=0, high=1)
    epochs: int = setting(2, "passes over a batch of unrolls", low=1)
    minibatch_size: int = setting(128, "steps in a gradient step", low=1)
    reward_clip: float | None = setting(
        None, "rewards are clipped to this size, for learning only", above=0
    )
    optimizer: OptimizerName = setting("radam", "the optimizer")

    @property
    def horizon(self) -> int:
        """The steps of an unroll."""
        return self.unroll


class Pqn(Algorithm[PqnSettings]):
    """Q(lambda) on unrolls from a queue, with epsilon-greedy actors."""

    Settings = PqnSettings
    Policy = EpsilonGreedySettings
    defaults = {  # noqa: RUF012
        "net.norm": "layer",
        "policy.epsilon_base": 0.01,
        "policy.epsilon_exponent": 0.0,
        "policy.epsilon_decay_env_steps": 50_000,
        "replay.sampler": "fifo",
        "replay.max_times_sampled": 1,
        "replay.batch_size": 32,
        "replay.min_size": 1,
        "replay.prefetch": 0,
        "replay.capacity": 2_560,
        "actor.envs_per_actor": 32,
        "actor.fetch_period_steps": 8,
        "learner.publish_period": 1,
        "eval.period": 20,
    }

    def __init__(self, config: Config, spaces: EnvSpaces):
        super().__init__(config, spaces)
        steps = config.replay.batch_size * self.settings.unroll
        if self.settings.minibatch_size > steps:
            raise ConfigError(
                f"algo.minibatch_size = {self.settings.minibatch_size} exceeds the {steps} steps "
                "of a batch: replay.batch_size x algo.unroll",
                f"lower it to {steps}, or raise one of the two",
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
        action = self._policy.choose(values, rows.action_mask)
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


class PqnLearner:
    """A network, an optimizer, and the order of minibatches. Not thread-safe."""

    def __init__(self, algo: Pqn, device: str, seed: int):
        from drlnet.nets.device import usable_device
        from drlnet.nets.optimizers import Optimizer

        torch.manual_seed(seed)
        self.settings, self._stack = algo.settings, algo.config.net.frame_stack
        self._spaces = algo.spaces
        self.device = usable_device(device)
        self.online = algo.q_net().to(self.device)
        self.optimizer = Optimizer(self.settings, self.online.parameters())
        self._rng = np.random.default_rng(seed)
        self.steps = self.updates = 0

    def step(self, batches: Mapping[str, Batch]) -> Learned:
        """All epochs over a batch of unrolls."""
        batch, settings, stack = batches[TABLE], self.settings, self._stack
        views = observed(self._spaces, batch.views)
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
                loss.backward()
                self.optimizer.step(batch.env_steps, batch.spent)
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

    def params(self) -> Params:
        """The network's."""
        return self.online.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """The network, the optimizer, the counters, and where the generator stands."""
        return {
            "online": self.online.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
            "updates": self.updates,
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict of the same settings."""
        self.online.load_state_dict(state["online"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps, self.updates = int(state["steps"]), int(state["updates"])
        self._rng.bit_generator.state = state["rng"]
