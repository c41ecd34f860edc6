"""Quantile regression DQN (Dabney et al., arXiv 1710.10044), as a user would write it.

    drlnet run CartPole-v1 --algo qr_dqn:QrDqn --set algo.quantiles=32

With N quantiles theta_i(s, a), tau_i = (i + 1/2) / N, targets T_j = R + factor theta'_j(s', a*):

    loss = mean over j of the sum over i of |tau_i - 1(T_j < theta_i)| Huber(T_j - theta_i)
"""

from dataclasses import dataclass

import torch
from torch import nn

from drlnet.adders import (
    NStepErrors,
    n_step_targets,
    tensors,
    transition_columns,
    transition_item,
    transition_row,
)
from drlnet.algos import TABLE, Algorithm, GreedyQ, Learned, TargetNetLearner, setting
from drlnet.nets import OptimizerSettings, make_net
from drlnet.policies import EpsilonGreedy, EpsilonGreedySettings


@dataclass(frozen=True)
class QrDqnSettings(OptimizerSettings):
    quantiles: int = setting(32, "quantiles of each action's return", low=1)
    n_step: int = setting(5, "steps of reward before the bootstrap", low=1)
    gamma: float = setting(0.99, "discount per step", low=0, high=1)
    learning_rate: float = setting(1e-3, "the optimizer's learning rate", above=0)
    target_period: int = setting(100, "learner steps between copies to the target net", low=1)


class QuantileNet(nn.Module):
    """[n, *obs_shape] -> quantiles [n, num_actions, N]."""

    def __init__(self, torso, num_actions, quantiles):
        super().__init__()
        self.torso, self.shape = torso, (num_actions, quantiles)
        self.head = nn.Linear(torso.features, num_actions * quantiles)

    def forward(self, obs):
        return self.head(self.torso(obs)).unflatten(1, self.shape)


class QrDqn(Algorithm[QrDqnSettings]):
    Settings = QrDqnSettings
    Policy = EpsilonGreedySettings
    defaults = {"replay.samples_per_insert": 4.0, "actor.envs_per_actor": 32}  # noqa: RUF012

    def net(self):
        torso = make_net(self.config, self.spaces)
        return QuantileNet(torso, self.spaces.num_actions, self.settings.quantiles)

    def tables(self):
        columns, item = transition_columns(self.spaces), transition_item(self.settings.n_step)
        return {TABLE: self.replay(columns, item, priority_exponent=0.6)}

    def agent(self, streams):
        return Agent(self, streams)

    def learner(self, device, seed):
        return Learner(self, self.net, device, seed)

    def greedy(self, num_envs):
        return Player(self.net())


class Player(GreedyQ):
    def values(self, rows):
        with torch.inference_mode():
            return self.net(torch.from_numpy(rows.obs)).mean(2).numpy()


class Agent(Player):
    def __init__(self, algo, streams):
        super().__init__(algo.net())
        self.policy = EpsilonGreedy(algo.config.policy, streams)
        self.errors = NStepErrors(streams.count, algo.settings.n_step, algo.settings.gamma)

    def act(self, rows):
        self.rows, self.q = rows, self.values(rows)
        action = self.policy.choose(self.q)
        self.columns = transition_row(rows, action)
        return action, {TABLE: self.columns}

    def items(self, steps):
        rows = self.rows
        return {TABLE: self.errors.push(self.columns, rows.last, steps[TABLE], self.q, rows.mask)}

    def figures(self):
        return {"epsilon_min": float(self.policy.current.min())}


class Learner(TargetNetLearner):
    def step(self, batches):
        view, settings = tensors(batches[TABLE], self.device), self.settings
        rows = torch.arange(len(view["length"]), device=self.device)
        with torch.no_grad():
            best = self.online(view["next_obs"]).mean(2).argmax(1)
            returns, factor = n_step_targets(
                view["reward"], view["discount"], view["length"], settings.gamma
            )
            quantiles = self.target(view["next_obs"])[rows, best]
            targets = returns[:, None] + factor[:, None] * quantiles
        theta = self.online(view["obs"])[rows, view["action"].long()]
        errors = targets[:, None, :] - theta[:, :, None]  # [B, i, j]
        tau = (torch.arange(settings.quantiles, device=self.device) + 0.5) / settings.quantiles
        huber = nn.functional.smooth_l1_loss(errors, torch.zeros_like(errors), reduction="none")
        loss = ((tau[:, None] - (errors < 0).float()).abs() * huber).mean(2).sum(1).mean()
        self.descend(loss, batches[TABLE])
        self.end_step(settings.target_period)
        priorities = (targets.mean(1) - theta.detach().mean(1)).abs().cpu().numpy()
        return Learned({"loss": loss.detach()}, {TABLE: priorities})
