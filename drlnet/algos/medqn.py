r"""MeDQN: DQN with a small replay, which consolidates what it knew (Lan et al., arXiv 2205.10868).

The target network Q' holds what the online network Q knew before the newest batches. Beside DQN's
loss (drlnet.algos.dqn), on B states s that the batch need not hold, for all their actions:

    consolidation = mean over s and a of  (Q(s, a) - Q'(s, a))^2
    loss          = DQN's + lambda consolidation,         `updates` gradient steps on each batch

lambda goes linearly from its start to its end: at first Q' knows little that is worth keeping. The
states:

    uniform   (their U)  each number of s uniform between the smallest and the largest that it had
                         in the o_t and o_{t+m} drawn so far; a whole number where it is a byte
    real      (their R)  the o_{t+m} of the batch: states whose values DQN's loss does not move

The edges are those of DQN; a terminated o_{t+m} is a state like others, whose values nothing reads.

The paper leaves open how DQN's own extensions go with it: its DQN is neither double nor dueling,
n-step or prioritized, all of which are settings here. Its code differs from this file in four ways.
Its bounds follow each state as it is played; a learner here sees those that it draws. Its real
states are a second draw from the replay; here a batch is drawn once. It draws MinAtar's truth
values as 0 or 1; here they are bytes of 0 or 255, and a uniform one is a shade between: take `real`
for images. It finds the targets once for all updates of a batch; here each update finds them, the
same ones but for double's a*. A batch is one learner step, however many its updates are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from drlnet.adders import Tensors
from drlnet.algos.contract import TABLE, Learned
from drlnet.algos.dqn import Dqn, DqnLearner, DqnSettings
from drlnet.config import setting
from drlnet.lazy import torch
from drlnet.nets import stacked_shape

if TYPE_CHECKING:
    from drlnet.client import Batch


@dataclass(frozen=True)
class MedqnSettings(DqnSettings):
    """Deep Q-learning with a small replay, consolidated by the target network."""

    states: Literal["uniform", "real"] = setting(
        "uniform", "where consolidation looks: within the bounds of the states, or at real ones"
    )
    updates: int = setting(2, "gradient steps on each batch", low=1)
    consolidation_start: float = setting(0.01, "lambda at the first learner step", low=0)
    consolidation_end: float = setting(2.0, "where lambda goes, linearly", low=0)
    consolidation_env_steps: int | None = setting(
        None, "env_steps after which it is there; at the latest as the run's budget ends", low=1
    )


class Medqn(Dqn):
    """Deep Q-learning with a tenth of the replay."""

    Settings = MedqnSettings
    lambda_returns = False
    defaults = {"replay.capacity": 5_000}  # noqa: RUF012

    def learner(self, device: str, seed: int) -> MedqnLearner:
        """A learner on that device."""
        return MedqnLearner(self, device, seed)


class MedqnLearner(DqnLearner):
    """DQN's step with the module's loss. Not thread-safe."""

    settings: MedqnSettings

    def __init__(self, algo: Medqn, device: str, seed: int):
        super().__init__(algo, device, seed)
        self.updates = self.settings.updates
        shape = stacked_shape(algo.spaces.obs_shape, algo.config.net.frame_stack)
        self.low = torch.full(shape, torch.inf, device=self.device)  # of all states seen so far
        self.high = torch.full(shape, -torch.inf, device=self.device)
        self._weight, self._consolidation = 0.0, torch.zeros(())

    def weight(self, env_steps: int, spent: float) -> float:
        """lambda after that many env_steps, with that share of the run's budget spent."""
        settings, steps = self.settings, self.settings.consolidation_env_steps
        share = min(1.0, max(spent, env_steps / steps if steps else 0.0))
        start, end = settings.consolidation_start, settings.consolidation_end
        return start + share * (end - start)

    def states(self, batch: Tensors) -> torch.Tensor:
        """The states [B, *shape] to consolidate at, in the dtype of observations."""
        if self.settings.states == "real":
            return batch["next_obs"]
        seen = torch.cat([batch["obs"], batch["next_obs"]])
        self.low = torch.minimum(self.low, seen.amin(0))
        self.high = torch.maximum(self.high, seen.amax(0))
        # By the generator that a run's state keeps, whatever the device.
        share = torch.rand(batch["obs"].shape).to(self.device)
        if seen.is_floating_point():
            return self.low + share * (self.high - self.low)
        drawn = (self.low + share * (self.high - self.low + 1)).floor()
        return torch.minimum(drawn, self.high).to(seen.dtype)  # the sum may be rounded up

    def loss(
        self, batch: Tensors, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """DQN's, and the consolidation."""
        loss, taken, target = super().loss(batch, weights)
        states = self.states(batch)
        with torch.no_grad():
            known = self.target(states)
        consolidation = (self.online(states) - known).square().mean()
        self._consolidation = consolidation.detach()
        return loss + self._weight * consolidation, taken, target

    def step(self, batches: Mapping[str, Batch]) -> Learned:
        """The gradient steps on a batch."""
        batch = batches[TABLE]
        self._weight = self.weight(batch.env_steps, batch.spent)
        learned = super().step(batches)
        own: dict[str, float | torch.Tensor] = {
            "consolidation": self._consolidation,
            "consolidation_weight": self._weight,
        }
        return replace(learned, figures={**learned.figures, **own})

    def state_dict(self) -> dict[str, Any]:
        """DQN's, and the bounds of the states."""
        return {**super().state_dict(), "low": self.low, "high": self.high}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict of the same settings."""
        super().load_state_dict(state)
        self.low, self.high = (state[name].to(self.device) for name in ("low", "high"))
