r"""Deep Q-learning, double, dueling, n-step, prioritized: one file, top to bottom.

An item is anchored at step t of an episode. With m = min(n, steps left in the episode), its true
length, and the rewards r_k and discounts d_k that arrived with o_{t+k} (d = 0 where terminated):

    R      = sum_{k=1..m} gamma^(k-1) (d_1 ... d_{k-1}) r_k
    target = R + gamma^m (d_1 ... d_m) Q'(o_{t+m}, a*)
    a*     = argmax_a Q(o_{t+m}, a)        double (van Hasselt et al., 2016), else argmax_a Q'
    delta  = target - Q(o_t, a_t)
    loss   = mean over the batch of  w Huber(delta),      priority = |delta|

The edges: an episode that terminated at t + m has d_m = 0, so nothing is bootstrapped; one that
was truncated (a time limit) has d_m = 1 and bootstraps from its final observation; a lost life
that sets terminated cuts the sums there although the rows go on. Only m < n shortens the powers of
gamma.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from drlnet.algos.n_step_errors import NStepErrors
from drlnet.client import Batch, Column, Item, View
from drlnet.config import DqnConfig
from drlnet.envs import EnvSpaces, Rows
from drlnet.nets import Adam, Mlp, usable_device

Floats = npt.NDArray[np.float32]


def columns(spaces: EnvSpaces) -> dict[str, Column]:
    """The columns of a table row; reward, discount arrived with obs, action was taken at it."""
    return {
        "obs": Column(spaces.obs_dtype, spaces.obs_shape),
        "action": Column("int32"),
        "reward": Column("float32"),
        "discount": Column("float32"),
    }


def item(config: DqnConfig) -> Item:
    """What the learner reads of the rows t .. t + n of one stream."""
    n = config.n_step
    return Item(
        views={
            "obs": View("obs", 0),
            "next_obs": View("obs", n, from_end=True),
            "action": View("action", 0),
            "reward": View("reward", (1, n), pad="zero"),
            "discount": View("discount", (1, n), pad="zero"),
        },
        boundary="stop",
    )


def row(rows: Rows, action: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    """The columns of M environments' rows, [M, ...] each; a LAST row's action is 0."""
    return {
        "obs": rows.obs,
        "action": np.where(rows.last, 0, action).astype(np.int32),
        "reward": rows.reward,
        "discount": np.where(rows.terminated, np.float32(0), np.float32(1)),
    }


def make_net(config: DqnConfig, spaces: EnvSpaces) -> nn.Module:
    """The Q network; its initial params follow from torch's seed."""
    return Mlp(spaces.obs_shape, spaces.num_actions, config.hidden_sizes, config.dueling)


def initial_priorities(config: DqnConfig, num_streams: int) -> NStepErrors:
    """What an actor computes its items' first priorities with."""
    return NStepErrors(num_streams, config.n_step, config.gamma)


def n_step_targets(
    reward: torch.Tensor, discount: torch.Tensor, length: torch.Tensor, gamma: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """R and the bootstrap's factor gamma^m (d_1 ... d_m).

    reward, discount: [B, n] float32 (r_1 .. r_n), whatever stands behind m = length [B] is ignored.
    """
    steps = torch.arange(1, reward.shape[1] + 1, device=reward.device)
    inside = steps <= length[:, None]
    factor = torch.where(inside, gamma * discount, 1.0).cumprod(1)  # 1 behind m: the product stays
    before = torch.cat([torch.ones_like(factor[:, :1]), factor[:, :-1]], 1)
    returns = torch.where(inside, before * reward, 0.0).sum(1)
    return returns, factor[:, -1]


class Learner:
    """Online and target networks and an optimiser. Not thread-safe."""

    def __init__(self, config: DqnConfig, spaces: EnvSpaces, device: str, seed: int):
        torch.manual_seed(seed)
        self.config = config
        self.device = usable_device(device)
        self.online = make_net(config, spaces).to(self.device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimiser = Adam(
            self.online.parameters(), config.learning_rate, config.adam_epsilon, fused=True
        )
        self.steps = 0
        self._q_mean = torch.zeros(())

    @property
    def q_mean(self) -> float:
        """The mean Q value of the actions taken in the newest batch."""
        return float(self._q_mean)

    def loss(
        self, batch: dict[str, torch.Tensor], weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """batch: the item's views and length, weights: [B] -> (loss, priorities [B])."""
        size = len(weights)
        if self.config.double:  # one pass of the online network for both observations
            q_both = self.online(torch.cat([batch["obs"], batch["next_obs"]]))
            q, choose = q_both[:size], q_both[size:].detach()
        else:
            q, choose = self.online(batch["obs"]), None
        with torch.no_grad():
            q_next = self.target(batch["next_obs"])
            best = (q_next if choose is None else choose).argmax(1, keepdim=True)
            returns, factor = n_step_targets(
                batch["reward"], batch["discount"], batch["length"], self.config.gamma
            )
            target = returns + factor * q_next.gather(1, best).squeeze(1)
        taken = q.gather(1, batch["action"].long()[:, None]).squeeze(1)
        self._q_mean = taken.detach().mean()
        losses = functional.smooth_l1_loss(taken, target, reduction="none")
        return (weights * losses).mean(), (target - taken.detach()).abs()

    def learn(self, batch: Batch, weights: Floats) -> tuple[torch.Tensor, Floats]:
        """One gradient step on a batch. Returns (loss, priorities [B])."""
        views = {name: torch.from_numpy(view) for name, view in batch.views.items()}
        views["length"] = torch.from_numpy(batch.length.astype(np.int64))
        if self.device.type != "cpu":
            views = {name: view.to(self.device) for name, view in views.items()}
        loss, priorities = self.loss(views, torch.from_numpy(weights).to(self.device))
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.online.parameters(), self.config.max_grad_norm)
        self.optimiser.step()
        self.steps += 1
        if self.steps % self.config.target_period == 0:
            self.target.load_state_dict(self.online.state_dict())
        return loss.detach(), priorities.cpu().numpy()
