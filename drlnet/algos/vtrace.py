r"""V-trace: an actor-critic whose actors may lag (IMPALA, Espeholt et al., arXiv 1802.01561).

Actors draw actions from mu = softmax(logits) of the params that they have, and record log mu(a_t).
An unroll is T steps of one stream, over episodes' ends, from a queue: it is drawn once. With the
learner's newest policy pi and values V, the rewards r and the discounts d (0 where terminated) that
arrived with o_t, and the ratio w_t = pi(a_t | o_t) / mu(a_t | o_t):

    rho_t   = min(rho_clip, w_t)            c_t = lambda min(c_clip, w_t)
    delta_t = rho_t (r_t+1 + gamma d_t+1 V(o_t+1) - V(o_t))
    v_t     = V(o_t) + delta_t + gamma d_t+1 c_t x_t+1              x_t = v_t - V(o_t), x_T = 0
    A_t     = rho_t (r_t+1 + gamma d_t+1 (V(o_t+1) + x_t+1) - V(o_t))
    loss    = mean of  - A_t log pi(a_t | o_t) + value_weight (v_t - V(o_t))^2 / 2 - entropy H(pi)

x_t+1 is 0 where row t+1 ends its episode. The edges: a terminated episode has d = 0, so that
nothing is bootstrapped; a truncated one bootstraps from its final observation and no further; a
lost life (d = 0, and the rows go on) cuts the targets likewise. A LAST row takes no action: it is
no step, and no mean counts it. v and A are constants to the gradient.

The paper sums the loss over the rows of a batch and leaves open how an unroll meets an episode's
end: its environments reset within a step, and have no final observation. Here the loss is a mean,
so that the learning rate does not depend on the batch. corrected = false learns with w_t = 1: what
is lost without the correction. Rows carry the learner steps that made mu, so that the learner knows
how far it has gone since: `batch_policy_lag`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from drlnet.adders import (
    Items,
    Stacks,
    UnrollSettings,
    tensors,
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
    Params,
    TableSettings,
    needs_queue,
)
from drlnet.algos.learners import NetLearner
from drlnet.algos.players import NetPlayer, Present
from drlnet.client import Batch
from drlnet.client.specs import Column, View
from drlnet.config import setting
from drlnet.errors import ConfigError
from drlnet.lazy import torch
from drlnet.nets import OptimizerSettings, make_net
from drlnet.policies import Softmax

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces, Rows, Streams

_INVALID = -1e9  # the logit of an action that is not valid; -inf would make its entropy NaN
_MADE_BY = "made_by"  # among the params: the learner steps that made them


@dataclass(frozen=True)
class VtraceSettings(UnrollSettings, OptimizerSettings):
    """An actor-critic on unrolls, corrected for the actors' lag."""

    learning_rate: float = setting(1e-3, "the optimizer's learning rate", above=0)
    unroll: int = setting(20, "steps of an unroll", low=2, high=4096)
    gamma: float = setting(0.99, "discount per step", low=0, high=1)
    trace: float = setting(1.0, "lambda of the targets", low=0, high=1)
    rho_clip: float = setting(1.0, "ratios count up to this in the targets' errors", above=0)
    c_clip: float = setting(
        1.0, "ratios count up to this in what is carried back; at most rho_clip", above=0
    )
    corrected: bool = setting(True, "false: all ratios are 1, as if actors did not lag")
    entropy: float = setting(0.01, "the weight of the policy's entropy", low=0)
    value_weight: float = setting(0.5, "the weight of the values' errors", low=0)
    reward_clip: float | None = setting(
        None, "rewards are clipped to this size, for learning only", above=0
    )


class Vtrace(Algorithm[VtraceSettings]):
    """An actor-critic on unrolls from a queue, with actors that draw from their policy."""

    Settings = VtraceSettings
    stacks_frames = True
    defaults = {  # noqa: RUF012
        **QUEUE_DEFAULTS,
        "eval.period": 50,
    }

    def __init__(self, config: Config, spaces: EnvSpaces):
        super().__init__(config, spaces)
        needs_queue(config)
        if self.settings.c_clip > self.settings.rho_clip:
            raise ConfigError(
                f"algo.c_clip = {self.settings.c_clip:g} exceeds algo.rho_clip = "
                f"{self.settings.rho_clip:g}: what is carried back would outweigh its errors",
                "lower algo.c_clip to it, or raise algo.rho_clip",
            )

    def tables(self) -> Mapping[str, TableSettings]:
        """A queue of unrolls that neither overlap nor leave gaps."""
        length, stack = self.settings.unroll, self.config.net.frame_stack
        columns = {
            **transition_columns(self.spaces),
            "last": Column("bool"),
            "log_probability": Column("float32"),
            "made_by": Column("int32"),
        }
        masks = ["action_mask"] if self.spaces.action_mask else []
        names = ["log_probability", "made_by", *masks]
        extras = {name: View(name, (0, length - 1)) for name in names}
        item = unroll_item(self.spaces, length, stack, extras, final_obs=True)
        return {TABLE: self.replay(columns, item)}

    def net(self) -> torch.nn.Module:
        """The policy and the values; their initial params follow from torch's seed."""
        from drlnet.nets.heads import PolicyNet

        return PolicyNet(make_net(self.config, self.spaces), self.spaces.num_actions)

    def agent(self, streams: Streams) -> VtraceAgent:
        """An agent that draws from its policy."""
        return VtraceAgent(self, streams)

    def learner(self, device: str, seed: int) -> VtraceLearner:
        """A learner on that device."""
        return VtraceLearner(self, device, seed)

    def greedy(self, num_envs: int) -> GreedyPolicy:
        """The most probable action."""
        return GreedyPolicy(self, num_envs)


class GreedyPolicy(NetPlayer):
    """Plays the most probable action. Not thread-safe."""

    def __init__(self, algo: Vtrace, num_envs: int):
        super().__init__(algo.net())
        self._stacks = Stacks(num_envs, algo.config.net.frame_stack)
        self._made_by = 0

    def load(self, params: Params) -> None:
        """Plays with these params from now on."""
        own = dict(params)
        self._made_by = int(own.pop(_MADE_BY, 0))
        super().load(own)

    def log_probabilities(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Returns those of all actions, [M, num_actions]."""
        present = Present(rows, self.device)
        with torch.inference_mode():
            logits, _ = self.net(present.of(self._stacks.push(rows).obs))
            if rows.action_mask is not None:
                logits = logits.masked_fill(~present.of(rows.action_mask), _INVALID)
            known: npt.NDArray[np.float32] = present.spread(logits.log_softmax(1))
        return known

    def act(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Actions [M]."""
        action: npt.NDArray[np.int64] = self.log_probabilities(rows).argmax(1)
        return action


class VtraceAgent(GreedyPolicy):
    """Draws from its policy, and records rows with the log-probabilities that it drew by."""

    def __init__(self, algo: Vtrace, streams: Streams):
        super().__init__(algo, streams.count)
        self._policy = Softmax(streams)
        self._unroll = algo.settings.unroll

    def act(  # type: ignore[override]
        self, rows: Rows
    ) -> tuple[npt.NDArray[np.int64], Mapping[str, Columns]]:
        """Actions [M], and the rows' columns."""
        action, taken = self._policy.choose(self.log_probabilities(rows))
        columns = {
            **transition_row(rows, action),
            "last": rows.last,
            "log_probability": taken,
            "made_by": np.full(len(action), self._made_by, np.int32),
        }
        return action, {TABLE: columns}

    def items(self, steps: Mapping[str, npt.NDArray[np.int64]]) -> Mapping[str, Items]:
        """The unrolls whose last step's outcome the newest rows are."""
        return {TABLE: unroll_items(self._unroll, steps[TABLE])}

    def figures(self) -> Mapping[str, float]:
        """None of its own."""
        return {}


def targets(
    ratio: torch.Tensor, reward: torch.Tensor, discount: torch.Tensor, last: torch.Tensor,
    value: torch.Tensor, settings: VtraceSettings,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """v and A [B, T]: the module's equations.

    ratio: [B, T]. reward, discount, last: [B, T], what arrived with o_1 .. o_T. value: [B, T + 1],
    of o_0 .. o_T.
    """
    rho = ratio.clamp(max=settings.rho_clip)
    decay = settings.gamma * discount
    error = rho * (reward + decay * value[:, 1:] - value[:, :-1])
    # What of x_t+1 reaches x_t; and what of it reaches A_t.
    onward = decay * (~last)
    carried = onward * settings.trace * ratio.clamp(max=settings.c_clip)
    beyond, above = torch.zeros_like(value[:, 0]), []
    for t in reversed(range(reward.shape[1])):
        above.append(beyond)
        beyond = error[:, t] + carried[:, t] * beyond
    ahead = torch.stack(above[::-1], 1)  # x_t+1
    return value[:, :-1] + error + carried * ahead, error + rho * onward * ahead


class VtraceLearner(NetLearner[VtraceSettings]):
    """One step: the module's loss on a batch of unrolls. Not thread-safe."""

    def __init__(self, algo: Vtrace, device: str, seed: int):
        super().__init__(algo, algo.net, device, seed)
        self._stack = algo.config.net.frame_stack

    def step(self, batches: Mapping[str, Batch]) -> Learned:
        """One step on a batch of unrolls."""
        batch, settings, stack = batches[TABLE], self.settings, self._stack
        view = tensors(batch, self.device, self.spaces)
        frames = torch.from_numpy(unroll_frames(batch.views["last"], stack)).to(self.device)
        obs = view["obs"].flatten(0, 1)
        logits, value = self.online(obs[frames] if stack > 1 else obs)
        shape = (len(batch.keys), settings.unroll + 1)
        logits = logits.view(*shape, -1)[:, :-1]
        if "action_mask" in view:
            logits = logits.masked_fill(~view["action_mask"], _INVALID)
        log_pi = logits.log_softmax(2)
        taken = log_pi.gather(2, view["action"].long().unsqueeze(2)).squeeze(2)
        value = value.view(shape)
        reward, last = view["reward"], view["last"][:, stack - 1 :]
        if settings.reward_clip is not None:
            reward = reward.clamp(-settings.reward_clip, settings.reward_clip)
        ratio = (taken.detach() - view["log_probability"]).exp()
        goal, advantage = targets(
            ratio if settings.corrected else torch.ones_like(ratio),
            reward, view["discount"], last[:, 1:], value.detach(), settings,
        )  # fmt: skip
        acted = ~last[:, :-1]  # LAST rows take no action
        entropy = -(log_pi.exp() * log_pi).sum(2)[acted].mean()
        error = (goal - value[:, :-1])[acted].square().mean()
        gain = (advantage * taken)[acted].mean()
        loss = settings.value_weight * 0.5 * error - gain - settings.entropy * entropy
        self.descend(loss, batch)
        ratio, lag = ratio[acted], self.steps - view["made_by"][acted]
        self.steps += 1
        return Learned(
            {
                "loss": loss.detach(),
                "value_error": error.detach(),
                "entropy": entropy.detach(),
                "ratio_mean": ratio.mean(),
                "ratio_clipped_share": (ratio > settings.rho_clip).float().mean(),
                "batch_policy_lag": lag.float().mean(),
                "learning_rate": self.optimizer.learning_rate(batch.env_steps, batch.spent),
            }
        )

    def params(self) -> Params:
        """The network's, and the steps that made them."""
        return {**super().params(), _MADE_BY: torch.tensor(self.steps)}
