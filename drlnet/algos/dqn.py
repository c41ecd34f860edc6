r"""Deep Q-learning, double, dueling, n-step, prioritized: one file, top to bottom.

An item is anchored at step t of an episode. With m = min(n, steps left in the episode), its true
length, and the rewards r_k and discounts d_k that arrived with o_{t+k} (d = 0 where terminated):

    R      = sum_{k=1..m} gamma^(k-1) (d_1 ... d_{k-1}) r_k
    target = R + gamma^m (d_1 ... d_m) Q'(o_{t+m}, a*)
    a*     = argmax_a Q(o_{t+m}, a)        double (van Hasselt et al., 2016), else argmax_a Q',
                                           a among the actions that are valid at o_{t+m}
    delta  = target - Q(o_t, a_t)
    loss   = mean over the batch of  w Huber(delta),      priority = |delta|

The edges: an episode that terminated at t + m has d_m = 0, so nothing is bootstrapped; one that
was truncated (a time limit) has d_m = 1 and bootstraps from its final observation; a lost life
that sets terminated cuts the sums there although the rows go on. Only m < n shortens the powers of
gamma.

returns = "lambda" replaces the target by Watkins' Q(lambda) (1989) over the same m steps:

    v_k     = Q'(o_{t+k}, a*_k)                        a*_k as a*, of o_{t+k}
    l_k     = lambda where a_{t+k} is an a*_k, else 0                          lambda = trace
    G_m     = v_m
    G_k     = r_{k+1} + gamma d_{k+1} ((1 - l_{k+1}) v_{k+1} + l_{k+1} G_{k+1})
    target  = G_0

So a return goes on for as long as the actor did what the greedy policy of now would do, and is cut
where it explored or has been overtaken: lambda = 0 is one step, lambda = 1 as many as are greedy.
The edges stay: d = 0 bootstraps nothing, and m ends within the episode. Each target costs m values
where an n-step return costs one, of both networks in double. First priorities are of the n-step
errors: an actor does not know yet which of its actions the learner will find greedy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from drlnet.adders import (
    Items,
    NStepErrors,
    Stacks,
    Tensors,
    lambda_targets,
    n_step_targets,
    observation_views,
    stacks_view,
    tensors,
    transition_columns,
    transition_item,
    transition_row,
    window_stacks,
)
from drlnet.algos.contract import (
    TABLE,
    Algorithm,
    Columns,
    Learned,
    TableSettings,
)
from drlnet.algos.learners import TargetNetLearner
from drlnet.algos.players import GreedyQ
from drlnet.client import Batch, importance_weights
from drlnet.client.device_rows import moved
from drlnet.client.specs import Item, View
from drlnet.config import setting
from drlnet.errors import ConfigError
from drlnet.lazy import torch
from drlnet.nets import OptimizerSettings, make_net
from drlnet.policies import EpsilonGreedy, EpsilonGreedySettings

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces, Rows, Streams


@dataclass(frozen=True)
class DqnSettings(OptimizerSettings):
    """Deep Q-learning: double, dueling, n-step, prioritized."""

    n_step: int = setting(3, "steps of reward before the bootstrap", low=1, high=1000)
    returns: Literal["n_step", "lambda"] = setting(
        "n_step", "what is learned from n_step rewards; lambda: Watkins' Q(lambda) over them"
    )
    trace: float = setting(0.8, "lambda, where returns = lambda", low=0, high=1)
    gamma: float = setting(0.99, "discount per step", low=0, high=1)
    double: bool = setting(True, "choose the next action by the online network")
    dueling: bool = setting(True, "separate value and advantage streams")
    reward_clip: float | None = setting(
        None, "rewards are clipped to this size, for learning only", above=0
    )
    target_period: int = setting(100, "learner steps between copies to the target net", low=1)
    priority_exponent: float = setting(0.6, "alpha: stored priority is p^alpha", low=0, high=4)
    importance_exponent_start: float = setting(0.4, "beta at the first learner step", low=0)
    importance_exponent_end: float = setting(1.0, "beta at the end of its annealing", low=0)
    importance_anneal_steps: int | None = setting(
        None, "learner steps over which beta goes to its end; none: run.max_learner_steps", low=1
    )

    @property
    def horizon(self) -> int:
        """The steps of an item's return."""
        return self.n_step


class Dqn(Algorithm[DqnSettings]):
    """Deep Q-learning on prioritized n-step items, with epsilon-greedy actors."""

    Settings = DqnSettings
    Policy = EpsilonGreedySettings
    stacks_frames = True
    lambda_returns: ClassVar[bool] = True  # whether its learner has them

    def __init__(self, config: Config, spaces: EnvSpaces):
        super().__init__(config, spaces)
        if self.settings.returns == "lambda" and not self.lambda_returns:
            raise ConfigError(
                f"algo.name = {self.settings.name!r} learns from n-step returns alone",
                "leave algo.returns out, or use --algo dqn",
            )

    @property
    def architecture(self) -> str:
        """The network's, with or without dueling heads."""
        return f"{super().architecture} dueling={str(self.settings.dueling).lower()}"

    def tables(self) -> Mapping[str, TableSettings]:
        """One table of n-step transitions, or of all that a lambda return reads."""
        settings, stack = self.settings, self.config.net.frame_stack
        item = transition_item(settings.n_step, stack, self.spaces)
        if settings.returns == "lambda":
            whole = 1, settings.n_step
            views = {
                **item.views,
                **observation_views(self.spaces, "next_obs", stacks_view(stack, *whole)),
                "path_action": View("action", (0, settings.n_step - 1)),
            }
            if self.spaces.action_mask:
                views["next_action_mask"] = View("action_mask", whole)
            item = Item(views)
        columns, exponent = transition_columns(self.spaces), settings.priority_exponent
        return {TABLE: self.replay(columns, item, priority_exponent=exponent)}

    def q_net(self) -> torch.nn.Module:
        """The Q network; its initial params follow from torch's seed."""
        from drlnet.nets.heads import QNet

        torso = make_net(self.config, self.spaces)
        return QNet(torso, self.spaces.num_actions, dueling=self.settings.dueling)

    def agent(self, streams: Streams) -> DqnAgent:
        """An epsilon-greedy agent."""
        return DqnAgent(self, streams)

    def learner(self, device: str, seed: int) -> DqnLearner:
        """A learner on that device."""
        return DqnLearner(self, device, seed)

    def greedy(self, num_envs: int) -> GreedyQ:
        """The action of the largest Q value."""
        return GreedyQ(self.q_net(), Stacks(num_envs, self.config.net.frame_stack))


class DqnAgent(GreedyQ):
    """Explores, records transitions' rows, and gives items their first priorities."""

    def __init__(self, algo: Dqn, streams: Streams):
        super().__init__(algo.q_net(), Stacks(streams.count, algo.config.net.frame_stack))
        settings = algo.settings
        self._policy = EpsilonGreedy(algo.config.policy, streams)
        self._errors = NStepErrors(
            streams.count, settings.n_step, settings.gamma, settings.reward_clip
        )

    def act(  # type: ignore[override]
        self, rows: Rows
    ) -> tuple[npt.NDArray[np.int64], Mapping[str, Columns]]:
        """Actions [M], and the rows' columns; a LAST row's action is 0."""
        self._rows, self._values = rows, self.values(rows)
        action = self._policy.choose(self._values, rows.action_mask, rows.mask)
        self._columns = transition_row(rows, action)
        return action, {TABLE: self._columns}

    def items(self, steps: Mapping[str, npt.NDArray[np.int64]]) -> Mapping[str, Items]:
        """The items whose n steps, or whose episode, the newest rows end."""
        rows = self._rows
        return {
            TABLE: self._errors.push(
                self._columns, rows.last, steps[TABLE], self._values, rows.mask
            )
        }

    def figures(self) -> Mapping[str, float]:
        """The exploration of the greediest environment."""
        return {"epsilon_min": float(self._policy.current.min())}


class DqnLearner(TargetNetLearner[DqnSettings]):
    """One step: the module's loss on a batch. Not thread-safe."""

    updates = 1  # gradient steps on each batch
    # Whether loss() is the same function at every step, so that a GPU may have it as one graph.
    # A subclass does not inherit it.
    captured: ClassVar[bool] = True

    def __init__(self, algo: Dqn, device: str, seed: int):
        super().__init__(algo, algo.q_net, device, seed)
        self._gradients: Callable[[Tensors], tuple[torch.Tensor, ...]] = self.gradients
        own_net = ":" in algo.config.net.name  # which may do another thing at every call
        if self.device.type == "cuda" and vars(type(self)).get("captured") and not own_net:
            from drlnet.nets.captured import Captured

            self._gradients = Captured(self.gradients, self.online.parameters())
        self._budget = algo.config.run.max_learner_steps
        self._stack = algo.config.net.frame_stack

    @property
    def importance_exponent(self) -> float:
        """beta: from its start to its end over its annealing; without one it stays at the start."""
        settings = self.settings
        steps = settings.importance_anneal_steps or self._budget
        share = min(1.0, self.steps / steps) if steps else 0.0
        start, end = settings.importance_exponent_start, settings.importance_exponent_end
        return start + share * (end - start)

    def values(self, net: torch.nn.Module, seen: torch.Tensor) -> torch.Tensor:
        """Q values [n, num_actions] of what items show of observations."""
        q: torch.Tensor = net(seen)
        return q

    def seen_as(self, table: str) -> EnvSpaces:
        """The spaces of what a table holds."""
        return self.spaces

    def errors(self, batch: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """(Q(o_t, a_t), target), [B] each. batch: the item's views and `length`."""
        q = self.values(self.online, batch["obs"])
        taken = q.gather(1, batch["action"].long()[:, None]).squeeze(1)
        if self.settings.returns == "lambda":
            with torch.no_grad():
                return taken, self.traced(batch)
        with torch.no_grad():  # a pass of its own: what only chooses is not gone back through
            q_next = self.values(self.target, batch["next_obs"])
            choose = self.values(self.online, batch["next_obs"]) if self.settings.double else q_next
            if "next_action_mask" in batch:
                choose = choose.masked_fill(~batch["next_action_mask"], -torch.inf)
            best = choose.argmax(1, keepdim=True)
            returns, factor = self.returns(batch)
            return taken, returns + factor * q_next.gather(1, best).squeeze(1)

    def traced(self, batch: Tensors) -> torch.Tensor:
        """G_0 [B] of Q(lambda)."""
        ahead = window_stacks(batch["next_obs"], self._stack)  # of o_{t+1} .. o_{t+n}
        shape = ahead.shape[:2]
        q = self.target(ahead.flatten(0, 1)).unflatten(0, shape)
        choose = self.online(ahead.flatten(0, 1)).unflatten(0, shape) if self.settings.double else q
        if "next_action_mask" in batch:
            choose = choose.masked_fill(~batch["next_action_mask"], -torch.inf)
        most, best = choose.max(2)
        taken = choose[:, :-1].gather(2, batch["path_action"][:, 1:, None].long()).squeeze(2)
        trace = torch.zeros_like(most)  # the last one's is not asked for
        trace[:, :-1] = self.settings.trace * (taken >= most[:, :-1])
        value = q.gather(2, best[:, :, None]).squeeze(2)
        return lambda_targets(
            value, trace, self.rewards(batch), batch["discount"], batch["length"],
            self.settings.gamma,
        )  # fmt: skip

    def rewards(self, batch: Tensors) -> torch.Tensor:
        """r_1 .. r_n [B, n], clipped where they are to be."""
        reward, clip = batch["reward"], self.settings.reward_clip
        return reward if clip is None else reward.clamp(-clip, clip)

    def returns(self, batch: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """R and the bootstrap's factor, [B] each."""
        return n_step_targets(
            self.rewards(batch), batch["discount"], batch["length"], self.settings.gamma
        )

    def losses(self, batch: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The unweighted losses, Q(o_t, a_t) and the targets, [B] each. batch: as in errors()."""
        taken, target = self.errors(batch)
        losses = torch.nn.functional.smooth_l1_loss(taken, target, reduction="none")
        return losses, taken, target

    def loss(
        self, batch: Tensors, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The loss of a batch with these weights [B], and losses()'s other two."""
        losses, taken, target = self.losses(batch)
        return (weights * losses).mean(), taken, target

    def gradients(self, batch: Tensors) -> tuple[torch.Tensor, ...]:
        """Leaves the gradients of loss(), and returns what it does. batch: with its weights."""
        loss, taken, target = self.loss(batch, batch["weights"])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach(), taken.detach(), target

    def step(self, batches: Mapping[str, Batch]) -> Learned:
        """The gradient steps on a batch: `updates` of them."""
        ((name, batch),) = batches.items()
        exponent = self.importance_exponent
        view = tensors(batch, self.device, self.seen_as(name))
        view["weights"] = moved(importance_weights(batch, exponent), self.device)
        for _ in range(self.updates):
            loss, taken, target = self._gradients(view)
            self.optimizer.step(batch.env_steps, batch.spent)
        self.end_step(self.settings.target_period)
        errors = (target - taken).abs()
        return Learned(
            {"loss": loss, "q_mean": taken.mean(), "importance_exponent": exponent},
            {name: errors if errors.is_cuda else errors.cpu().numpy()},
        )
