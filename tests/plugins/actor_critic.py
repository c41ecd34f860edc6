"""An advantage actor-critic on unrolls from a queue: another family than DQN, as a user's file.

    drlnet run CartPole-v1 --algo actor_critic:ActorCritic

Actors sample from softmax(logits) and record log pi(a|o). An unroll is T steps and the observation
behind them, over episodes' ends; each is drawn once. With V of the learner's newest params, d_t = 0
where o_{t+1} terminated; the sum is cut (lambda = 0) where o_{t+1} ends its episode:

    G_t    = r_{t+1} + gamma d_{t+1} ((1 - lambda) V(o_{t+1}) + lambda G_{t+1})
    loss   = - min(rho A, clip(rho, 1 - eps, 1 + eps) A) + c_v (G - V)^2 - c_e H(pi),  A = G - V

rho = pi(a|o) / the recorded probability; rows that are LAST take no action and count nothing.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from drlnet import Column, Item, View
from drlnet.adders import UnrollSettings, tensors, unroll_items
from drlnet.algos import QUEUE_DEFAULTS, TABLE, Algorithm, Learned, setting
from drlnet.nets import make_net


@dataclass(frozen=True)
class ActorCriticSettings(UnrollSettings):
    epochs: int = setting(4, "gradient steps on a batch", low=1)
    gamma: float = setting(0.99, "discount per step", low=0, high=1)
    trace: float = setting(0.95, "lambda of the returns", low=0, high=1)
    clip: float = setting(0.2, "how far the ratio of probabilities counts", above=0)
    learning_rate: float = setting(7e-4, "Adam's learning rate", above=0)
    entropy: float = setting(0.01, "weight of the entropy", low=0)


class PolicyNet(nn.Module):
    """Observations [n, *shape] -> logits [n, num_actions], values [n]."""

    def __init__(self, torso, num_actions):
        super().__init__()
        self.torso = torso
        self.policy = nn.Linear(torso.features, num_actions)
        self.value = nn.Linear(torso.features, 1)

    def forward(self, obs):
        features = self.torso(obs)
        return self.policy(features), self.value(features).squeeze(1)


class ActorCritic(Algorithm[ActorCriticSettings]):
    Settings = ActorCriticSettings
    defaults = {  # noqa: RUF012
        **QUEUE_DEFAULTS,
        "replay.batch_size": 16,
        "replay.prefetch": 1,
        "replay.capacity": 2048,
        "actor.envs_per_actor": 16,
        "actor.flush_rows": 32,
        "actor.fetch_period_steps": 32,
        "eval.period": 50,
        "net.hidden_sizes": (64, 64),
    }

    def net(self):
        return PolicyNet(make_net(self.config, self.spaces), self.spaces.num_actions)

    def tables(self):
        t, spaces = self.settings.unroll, self.spaces
        columns = {
            "obs": Column(spaces.obs_dtype, spaces.obs_shape),
            "action": Column("int64"),
            "log_probability": Column("float32"),
            "reward": Column("float32"),
            "terminated": Column("bool"),
            "last": Column("bool"),
        }
        views = {name: View(name, (0, t)) for name in columns}
        return {TABLE: self.replay(columns, Item(views, boundary="cross", period=t))}

    def agent(self, streams):
        return Agent(self, streams)

    def learner(self, device, seed):
        return Learner(self, device, seed)

    def greedy(self, num_envs):
        return Player(self)


class Player:
    def __init__(self, algo):
        self.net = algo.net()

    def load(self, params):
        self.net.load_state_dict(params)

    def log_probabilities(self, rows):
        with torch.inference_mode():
            return self.net(torch.from_numpy(rows.obs))[0].log_softmax(1).numpy()

    def act(self, rows):
        return self.log_probabilities(rows).argmax(1)


class Agent(Player):
    def __init__(self, algo, streams):
        super().__init__(algo)
        self.rng, self.unroll = streams.rng, algo.settings.unroll

    def act(self, rows):
        log_p = self.log_probabilities(rows)
        noise = self.rng.gumbel(size=log_p.shape)  # argmax(log p + Gumbel noise) draws from p
        action = (log_p + noise).argmax(1)
        taken = np.take_along_axis(log_p, action[:, None], 1)[:, 0]
        columns = {
            "obs": rows.obs,
            "action": action,
            "log_probability": taken,
            "reward": rows.reward,
            "terminated": rows.terminated,
            "last": rows.last,
        }
        return action, {TABLE: columns}

    def items(self, steps):
        return {TABLE: unroll_items(self.unroll, steps[TABLE])}

    def figures(self):
        return {}


class Learner:
    def __init__(self, algo, device, seed):
        torch.manual_seed(seed)
        self.settings, self.device, self.steps = algo.settings, torch.device(device), 0
        self.net = algo.net().to(self.device)
        self.adam = torch.optim.Adam(self.net.parameters(), self.settings.learning_rate)

    def returns(self, view, value):
        """G [B, T] of values [B, T + 1]."""
        alive = self.settings.gamma * (~view["terminated"][:, 1:]).float()
        trace = self.settings.trace * (~view["last"][:, 1:]).float()
        g = value[:, -1]
        returns = []
        for t in reversed(range(self.settings.unroll)):
            bootstrap = (1 - trace[:, t]) * value[:, t + 1] + trace[:, t] * g
            g = view["reward"][:, t + 1] + alive[:, t] * bootstrap
            returns.append(g)
        return torch.stack(returns[::-1], 1)

    def step(self, batches):
        view, settings = tensors(batches[TABLE], self.device), self.settings
        acted = ~view["last"][:, :-1]
        obs, size = view["obs"].flatten(0, 1), view["last"].shape
        for epoch in range(settings.epochs):
            logits, value = self.net(obs)
            value = value.view(size)
            if epoch == 0:
                returns = self.returns(view, value.detach())
                advantage = returns - value.detach()[:, :-1]
                advantage = (advantage - advantage[acted].mean()) / (advantage[acted].std() + 1e-8)
            log_p = logits.view(*size, -1)[:, :-1].log_softmax(2)
            taken = log_p.gather(2, view["action"][:, :-1, None]).squeeze(2)
            rho = (taken - view["log_probability"][:, :-1]).exp()
            clipped = rho.clamp(1 - settings.clip, 1 + settings.clip)
            gain = torch.minimum(rho * advantage, clipped * advantage)
            entropy = -(log_p.exp() * log_p).sum(2)
            error = (returns - value[:, :-1]).square()
            loss = (-gain + 0.5 * error - settings.entropy * entropy)[acted].mean()
            self.adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
            self.adam.step()
        self.steps += 1
        return Learned({"loss": loss.detach(), "rho_mean": rho.detach()[acted].mean()})

    def params(self):
        return self.net.state_dict()

    def state_dict(self):
        return {"net": self.net.state_dict(), "adam": self.adam.state_dict(), "steps": self.steps}

    def load_state_dict(self, state):
        self.net.load_state_dict(state["net"])
        self.adam.load_state_dict(state["adam"])
        self.steps = state["steps"]
