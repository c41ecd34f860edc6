r"""BTR: "Beyond the Rainbow" (Clark et al., arXiv 2411.03820), DQN with switches that work alone.

    quantiles    returns as quantiles: IQN (Dabney et al., arXiv 1806.06923); 0: Q values
    munchausen   a soft policy and a bonus for it: M-DQN, M-IQN (Vieillard et al., arXiv 2007.14430)
    noisy        noisy layers explore (Fortunato et al., arXiv 1706.10295)
    dueling, double, head_units: the heads; and of net.name = "impala" spectral_norm, width and pool

Items, R, m and D = gamma^m (d_1 ... d_m), which is 0 behind a termination, are those of
drlnet.algos.dqn, with its edges: truncation, a lost life, tails shorter than n. Z(o, a; tau) is the
online network's quantile of the return at the fraction tau, Z' the target network's, and tau_i,
tau'_j are N = quantiles uniform draws each. A mean over the draws is a Q value:

    q(o, a)   = mean_j Z'(o, a; tau'_j)
    V(o)      = T log sum_a exp(q(o, a) / T)          pi(a | o) = exp((q(o, a) - V(o)) / T)
    y_j       = R + D Z'(o_{t+m}, a*; tau'_j)         a* = argmax_a q(o_{t+m}, a), in double
                                                      by the online network's means
    y_j       = R + alpha max(l, q(o_t, a_t) - V(o_t))                           munchausen
                  + D sum_a pi(a | o_{t+m}) (Z'(o_{t+m}, a; tau'_j) - T log pi(a | o_{t+m}))
    delta_ij  = y_j - Z(o_t, a_t; tau_i)
    loss      = sum_i mean_j |tau_i - 1(delta_ij < 0)| Huber(delta_ij)
    priority  = |mean_j y_j - mean_i Z(o_t, a_t; tau_i)|

T log pi = q - V is at most 0: the bonus lowers the reward of what the policy seldom does, by
alpha |l| at most (the clipping). Behind a termination the bonus stays and the soft value is gone.
Every a is among the actions valid at its observation; the others have pi = 0. With quantiles = 0, Z
is Q: one i, one j, and the loss is Huber(delta). With all switches off it is our DQN's.

What the sources leave open, or have otherwise:

  - Munchausen's paper has n = 1. Here, as in BTR, the bonus is that of o_t, a_t alone: those of the
    n - 1 steps behind it would need their observations.
  - log pi(a_t | o_t) is the target network's, as in Munchausen's paper; BTR's code takes the online
    one's.
  - BTR's code stores sum_i mean_j |delta_ij| as the priority, which the return's own spread keeps
    from 0. Here it is DQN's, of the means, which actors know at no cost: their first priorities
    are by this equation, with their own params for both networks, under their own noise.
  - Acting draws no fractions: Q values are means over the middles of N equal parts of [0, 1].
  - An actor draws new noise for each of its steps, one for all its environments; the learner for
    each of its own, one for the online and one for the target network. Greedy play uses the means.
  - munchausen averages over actions, so it goes without double; nor has BTR double.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drlnet.adders import Items, Tensors
from drlnet.algos.contract import TABLE, TableSettings
from drlnet.algos.dqn import Dqn, DqnAgent, DqnLearner, DqnSettings
from drlnet.client.specs import View
from drlnet.config import setting
from drlnet.errors import ConfigError
from drlnet.lazy import torch
from drlnet.nets import make_net

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces, Rows, Streams


@dataclass(frozen=True)
class BtrSettings(DqnSettings):
    """Beyond the Rainbow: quantiles, Munchausen targets and noisy layers over DQN."""

    learning_rate: float = setting(1e-4, "the optimizer's learning rate", above=0)
    adam_epsilon: float = setting(0.005 / 256, "the optimizer's epsilon", above=0)
    gamma: float = setting(0.997, "discount per step", low=0, high=1)
    double: bool = setting(False, "choose the next action by the online network")
    target_period: int = setting(500, "learner steps between copies to the target net", low=1)
    priority_exponent: float = setting(0.2, "alpha: stored priority is p^alpha", low=0, high=4)
    importance_exponent_start: float = setting(0.45, "beta at the first learner step", low=0)
    importance_exponent_end: float = setting(0.45, "beta at the end of its annealing", low=0)
    quantiles: int = setting(8, "quantile samples; 0: learn Q values, without IQN", low=0)
    cosines: int = setting(64, "cosines that a quantile's fraction is seen by", low=1)
    munchausen: bool = setting(True, "soft targets, with the log-policy as a part of the reward")
    munchausen_scale: float = setting(0.9, "alpha: the log-policy's part", low=0, high=1)
    munchausen_temperature: float = setting(0.03, "T of the soft policy", above=0)
    munchausen_clip: float = setting(-1.0, "T log pi counts from this up", high=0)
    noisy: bool = setting(True, "explore by noisy layers in the heads")
    noise_scale: float = setting(0.5, "how wide the noise is at first", above=0)
    head_units: int = setting(
        512, "units of a hidden layer in each head; 0: none, as in dqn", low=0
    )


class Btr(Dqn):
    """DQN with quantiles, Munchausen targets and noisy layers."""

    settings: BtrSettings
    Settings = BtrSettings
    lambda_returns = False
    defaults = {  # noqa: RUF012
        "policy.epsilon_base": 0.01,
        "policy.epsilon_exponent": 0.0,
        "replay.batch_size": 256,
        "replay.samples_per_insert": 4.0,  # a learner step for 64 env_steps
        "actor.envs_per_actor": 64,
    }

    def __init__(self, config: Config, spaces: EnvSpaces):
        super().__init__(config, spaces)
        if self.settings.munchausen and self.settings.double:
            raise ConfigError(
                "algo.munchausen averages over actions, and algo.double would choose one",
                "set one of them to false",
            )

    @property
    def architecture(self) -> str:
        """DQN's, with what the heads are made of."""
        own = self.settings
        implicit = own.cosines if own.quantiles else 0
        noisy = str(own.noisy).lower()
        return f"{super().architecture} units={own.head_units} cosines={implicit} noisy={noisy}"

    def tables(self) -> Mapping[str, TableSettings]:
        """DQN's; Munchausen's policy needs to know which actions were valid at o_t."""
        table = super().tables()[TABLE]
        if self.settings.munchausen and self.spaces.action_mask:
            views = {**table.item.views, "action_mask": View("action_mask", 0)}
            table = replace(table, item=replace(table.item, views=views))
        return {TABLE: table}

    def q_net(self) -> torch.nn.Module:
        """The network of Z, or of Q; its initial params follow from torch's seed."""
        from drlnet.nets.heads import QNet, QuantileNet
        from drlnet.nets.noisy import NoisyLinear

        own, actions = self.settings, self.spaces.num_actions
        head: dict[str, Any] = {"dueling": own.dueling, "units": own.head_units}
        if own.noisy:
            head["linear"] = partial(NoisyLinear, scale=own.noise_scale)
        torso = make_net(self.config, self.spaces)
        if own.quantiles:
            return QuantileNet(torso, actions, own.quantiles, own.cosines, **head)
        return QNet(torso, actions, **head)

    def agent(self, streams: Streams) -> BtrAgent:
        """An agent that explores by noise and epsilon-greedily."""
        return BtrAgent(self, streams)

    def learner(self, device: str, seed: int) -> BtrLearner:
        """A learner on that device."""
        return BtrLearner(self, device, seed)


def soft_value(q: torch.Tensor, temperature: float) -> torch.Tensor:
    """V [n, 1] of q [n, num_actions], which is -inf for actions that are not valid."""
    return temperature * (q / temperature).logsumexp(1, keepdim=True)


def bonus(log_policy: torch.Tensor, settings: BtrSettings) -> torch.Tensor:
    """What Munchausen's targets add to a reward. log_policy: T log pi."""
    return settings.munchausen_scale * log_policy.clamp(settings.munchausen_clip, 0)


class BtrAgent(DqnAgent):
    """A DQN agent whose network is noisy, and whose first priorities are of Munchausen's errors."""

    def __init__(self, algo: Btr, streams: Streams):
        super().__init__(algo, streams)
        self._settings = algo.settings
        self._noise = torch.Generator().manual_seed(int(streams.rng.integers(2**63)))

    def values(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Q values [M, num_actions] under new noise, -inf of actions that are not valid."""
        self.net.sample_noise(self._noise)  # type: ignore[operator]
        return super().values(rows)

    def items(self, steps: Mapping[str, npt.NDArray[np.int64]]) -> Mapping[str, Items]:
        """The items whose n steps, or whose episode, the newest rows end."""
        if self._settings.munchausen:
            # NStepErrors bootstraps from a row's largest value and subtracts that of the action:
            # here V, and Q less the bonus, of which none exceeds V.
            q = torch.from_numpy(self._values)
            value = soft_value(q, self._settings.munchausen_temperature)
            less = q - bonus(q - value, self._settings)
            self._values = torch.cat([less, value], 1).numpy()
        return super().items(steps)


class BtrLearner(DqnLearner):
    """One step: the module's loss on a batch. Not thread-safe."""

    settings: BtrSettings

    def __init__(self, algo: Btr, device: str, seed: int):
        super().__init__(algo, device, seed)
        self._rng = torch.Generator().manual_seed(seed)  # of noise and fractions; a processor's

    def distribution(
        self, net: torch.nn.Module, obs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Z [n, N, num_actions] and its fractions [n, N]; Q as one quantile, without a fraction."""
        if not self.settings.quantiles:
            return net(obs).unsqueeze(1), None
        tau = torch.rand(len(obs), self.settings.quantiles, generator=self._rng).to(self.device)
        return net.quantiles(obs, tau), tau  # type: ignore[operator]

    def losses(self, batch: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The unweighted losses, and the means of Z(o_t, a_t) and of y, [B] each."""
        for net in (self.online, self.target):
            net.sample_noise(self._rng)  # type: ignore[operator]
        z, tau = self.distribution(self.online, batch["obs"])
        with torch.no_grad():
            choose = None
            if self.settings.double:
                choose = self.distribution(self.online, batch["next_obs"])[0].mean(1)
            goal = self.targets(batch, choose)
        action = batch["action"].long()[:, None, None].expand(-1, z.shape[1], 1)
        taken = z.gather(2, action)  # [B, i, 1]
        delta = goal[:, None, :] - taken
        huber = torch.nn.functional.smooth_l1_loss
        sizes = huber(delta, torch.zeros_like(delta), reduction="none")
        if tau is not None:
            sizes = (tau[:, :, None] - (delta < 0).float()).abs() * sizes
        return sizes.mean(2).sum(1), taken.mean((1, 2)), goal.mean(1)

    def targets(self, batch: Tensors, choose: torch.Tensor | None) -> torch.Tensor:
        """y [B, N]. choose: the values [B, num_actions] that a* is the best by; None: the means."""
        settings, size = self.settings, len(batch["length"])
        returns, factor = self.returns(batch)
        valid = batch.get("next_action_mask")
        if settings.munchausen:
            z, _ = self.distribution(self.target, torch.cat([batch["obs"], batch["next_obs"]]))
            now = masked(z[:size].mean(1), batch.get("action_mask"))
            taken = now.gather(1, batch["action"].long()[:, None])
            log_policy = taken - soft_value(now, settings.munchausen_temperature)
            returns = returns + bonus(log_policy, settings).squeeze(1)
            ahead = soft_quantiles(z[size:], valid, settings.munchausen_temperature)
        else:
            z, _ = self.distribution(self.target, batch["next_obs"])
            best = masked(z.mean(1) if choose is None else choose, valid).argmax(1)
            ahead = z[torch.arange(size, device=z.device), :, best]
        return returns[:, None] + factor[:, None] * ahead

    def state_dict(self) -> dict[str, Any]:
        """DQN's, and where the generator stands."""
        return {**super().state_dict(), "rng": self._rng.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict of the same settings."""
        super().load_state_dict(state)
        self._rng.set_state(state["rng"])


def masked(q: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
    """The same values, -inf of actions that are not valid. None: all are."""
    return q if valid is None else q.masked_fill(~valid, -torch.inf)


def soft_quantiles(z: torch.Tensor, valid: torch.Tensor | None, temperature: float) -> torch.Tensor:
    """sum_a pi(a) (z_a - T log pi(a)), [n, N], of z [n, N, num_actions].

    As T log pi(a) = q_a - V, that is V + sum_a pi(a) (z_a - q_a): an action that is not valid adds
    0, and no infinity meets its pi of 0.
    """
    q = z.mean(1, keepdim=True)
    soft = masked(q.squeeze(1), valid)
    policy = (soft / temperature).softmax(1)
    return soft_value(soft, temperature) + (policy[:, None] * (z - q)).sum(2)
