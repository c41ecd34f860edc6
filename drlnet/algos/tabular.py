r"""Q-learning and SARSA on a table, out of the replay (after SwiftRL, Gogineni et al., 2405.03967).

Observations are Discrete: states s. An item is one step. With the reward r and the discount d (0
where terminated) that arrived with the next state s', its target is

    y = r + gamma d max_a Q(s', a)      rule = "q_learning" (Watkins, 1989), a among valid actions
    y = r + gamma d Q(s', a')           rule = "sarsa" (Rummery and Niranjan, 1994)

and a batch, in which (s, a) appears k times with targets y_1 .. y_k, moves its value by

    Q(s, a) += (1 - (1 - alpha)^k) (mean of y_1 .. y_k - Q(s, a)),    alpha = rate / (1 + n)^power

where n counts the draws of (s, a) in earlier batches. All targets are of the table before the
batch. That is what k updates one after another, each by alpha, come to in the mean over the orders
in which they may stand: a batch has none.

The edges: a terminated step has d = 0, so nothing is bootstrapped; a truncated one bootstraps from
its final state, and SARSA by the action that the policy draws there, which the LAST row records
though none is taken; an episode's first row ends no item. The recorded a' is that of the params
which the actor then had: with a large replay SARSA values a mixture of the policies since.

SwiftRL trains on recorded transitions, split over the cores of a processing-in-memory system; here
actors play meanwhile, and one learner draws from the server. It leaves open what an update by a
batch is, as its cores take one transition after another. Under a constant rate (power = 0) values
settle only where outcomes are certain; else take 0.5 < power <= 1 (Even-Dar and Mansour, 2003).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from drlnet.adders import (
    Items,
    NStepErrors,
    Tensors,
    tensors,
    transition_columns,
    transition_item,
    transition_row,
)
from drlnet.algos.contract import TABLE, Algorithm, Columns, Learned, Params, TableSettings
from drlnet.algos.players import GreedyQ
from drlnet.client import Batch
from drlnet.client.specs import Item, View
from drlnet.config import AlgoSettings, setting
from drlnet.errors import ConfigError
from drlnet.lazy import torch
from drlnet.policies import EpsilonGreedy, EpsilonGreedySettings

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces, Rows, Streams

_TABLE = "weight"  # among the params: torch.nn.Embedding's name for it


@dataclass(frozen=True)
class TabularSettings(AlgoSettings):
    """Q-learning or SARSA on a table of Discrete observations."""

    rule: Literal["q_learning", "sarsa"] = setting(
        "q_learning", "bootstrap from the best next action, or from the one that the actor took"
    )
    gamma: float = setting(0.99, "discount per step", low=0, high=1)
    learning_rate: float = setting(
        1.0, "the rate of a state and action in the first batch that holds it", above=0, high=1
    )
    learning_rate_power: float = setting(
        0.6, "it falls by 1 / (1 + draws before)^power; 0: it stays", low=0, high=1
    )

    @property
    def horizon(self) -> int:
        """An item is one step."""
        return 1


class Tabular(Algorithm[TabularSettings]):
    """A table [states, actions], with epsilon-greedy actors of many environments."""

    Settings = TabularSettings
    Policy = EpsilonGreedySettings
    defaults = {  # noqa: RUF012
        "policy.epsilon_base": 0.9,  # from nearly at random to 0.11: no table generalises
        "policy.epsilon_exponent": 20.0,
        "replay.sampler": "uniform",
        "replay.batch_size": 1024,
        "replay.samples_per_insert": 8.0,
        "actor.envs_per_actor": 256,
        "actor.fetch_period_steps": 4,
        "learner.publish_period": 4,
    }

    def __init__(self, config: Config, spaces: EnvSpaces):
        super().__init__(config, spaces)
        if spaces.num_states is None:
            raise ConfigError(
                f"algo.name = {self.settings.name!r} keeps a value for each Discrete observation, "
                f"and those of {config.env.id} are {spaces.obs_dtype}{list(spaces.obs_shape)}",
                "use --algo dqn, or wrap the environment so that it numbers its states "
                "(gymnasium.spaces.Discrete)",
            )
        self.num_states = spaces.num_states

    @property
    def architecture(self) -> str:
        """The table's size."""
        return f"{self.settings.name} states={self.num_states} actions={self.spaces.num_actions}"

    def tables(self) -> Mapping[str, TableSettings]:
        """One table of steps."""
        views = dict(transition_item(1, spaces=self.spaces).views)
        if self.settings.rule == "sarsa":
            views["next_action"] = View("action", 1)
        return {TABLE: self.replay(transition_columns(self.spaces), Item(views))}

    def q_net(self) -> torch.nn.Module:
        """The table as a network: states [n] -> Q values [n, num_actions]; zeros at first."""
        table = torch.nn.Embedding(self.num_states, self.spaces.num_actions)
        torch.nn.init.zeros_(table.weight)
        return table

    def agent(self, streams: Streams) -> TabularAgent:
        """An epsilon-greedy agent."""
        return TabularAgent(self, streams)

    def learner(self, device: str, seed: int) -> TabularLearner:
        """A learner on that device; it draws nothing from the seed."""
        return TabularLearner(self, device)

    def greedy(self, num_envs: int) -> TabularGreedy:
        """The action of the largest Q value."""
        return TabularGreedy(self.q_net())


class TabularGreedy(GreedyQ):
    """Plays the action of the largest Q value of the table."""

    def values(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Q values [M, num_actions], -inf of actions that are not valid."""
        assert rows.leaves is not None, "Discrete observations are a leaf"
        return super().values(replace(rows, obs=rows.leaves["obs"]))


class TabularAgent(TabularGreedy):
    """Explores, and records each step, a LAST row's with the action that would have been next."""

    def __init__(self, algo: Tabular, streams: Streams):
        super().__init__(algo.q_net())
        self._policy = EpsilonGreedy(algo.config.policy, streams)
        self._steps = NStepErrors(streams.count, 1, algo.settings.gamma)

    def act(  # type: ignore[override]
        self, rows: Rows
    ) -> tuple[npt.NDArray[np.int64], Mapping[str, Columns]]:
        """Actions [M], and the rows' columns."""
        self._rows, self._values = rows, self.values(rows)
        action = self._policy.choose(self._values, rows.action_mask, rows.mask)
        self._columns = {**transition_row(rows, action), "action": action.astype(np.int32)}
        return action, {TABLE: self._columns}

    def items(self, steps: Mapping[str, npt.NDArray[np.int64]]) -> Mapping[str, Items]:
        """The steps whose outcome the newest rows are."""
        rows = self._rows
        return {
            TABLE: self._steps.push(self._columns, rows.last, steps[TABLE], self._values, rows.mask)
        }

    def figures(self) -> Mapping[str, float]:
        """The exploration of the greediest environment."""
        return {"epsilon_min": float(self._policy.current.min())}


class TabularLearner:
    """One step: the module's update by a batch. Not thread-safe."""

    def __init__(self, algo: Tabular, device: str):
        from drlnet.nets.device import usable_device

        self.settings, self.device = algo.settings, usable_device(device)
        shape = algo.num_states, algo.spaces.num_actions
        self.table = torch.zeros(shape, dtype=torch.float64, device=self.device)
        self.draws = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.steps = 0

    def targets(self, view: Tensors) -> torch.Tensor:
        """y [B] of the module's equations, float64."""
        following = self.table[view["next_obs"].long()]
        if self.settings.rule == "sarsa":
            value = following.gather(1, view["next_action"].long()[:, None]).squeeze(1)
        else:
            if "next_action_mask" in view:
                following = following.masked_fill(~view["next_action_mask"], -torch.inf)
            value = following.amax(1)
        reward, discount = view["reward"][:, 0].double(), view["discount"][:, 0].double()
        return reward + self.settings.gamma * discount * value

    def step(self, batches: Mapping[str, Batch]) -> Learned:
        """The update by a batch of steps."""
        # Without the spaces: states stay numbers.
        view, settings = tensors(batches[TABLE], self.device), self.settings
        target, size = self.targets(view), self.table.numel()
        pairs = view["obs"].long() * self.table.shape[1] + view["action"].long()
        error = (target - self.table.flatten()[pairs]).abs().mean()
        count = torch.bincount(pairs, minlength=size).view_as(self.table)
        total = torch.bincount(pairs, target, minlength=size).view_as(self.table)
        rate = settings.learning_rate / (1 + self.draws.double()).pow(settings.learning_rate_power)
        # Where a pair is not in the batch, the first factor is 0.
        self.table += (1 - (1 - rate).pow(count)) * (total / count.clamp(min=1) - self.table)
        self.draws += count
        self.steps += 1
        return Learned({"loss": error, "q_mean": target.mean()})

    def params(self) -> Params:
        """The table, float32 [states, actions]."""
        return {_TABLE: self.table.float()}

    def state_dict(self) -> dict[str, Any]:
        """The table, the draws of each state and action, and the steps taken."""
        return {"table": self.table, "draws": self.draws, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict of the same settings."""
        self.table.copy_(state["table"])
        self.draws.copy_(state["draws"])
        self.steps = int(state["steps"])
