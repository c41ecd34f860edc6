"""Networks and algorithms that do not keep the contract, each in its own way."""

import numpy as np
import torch
from qr_dqn import Agent, Learner, Player, QrDqn
from torch import nn

from drlnet.algos import TABLE, Algorithm, Items, Learned


class NoFeatures(nn.Sequential):
    """Does not say how many features it makes."""

    def __init__(self, settings, obs_shape):
        super().__init__(nn.Linear(obs_shape[0], 64))


class WrongFeatures(NoFeatures):
    """Makes other ones than it says."""

    features = 32


class ForEight(nn.Sequential):
    """Takes vectors of eight alone."""

    features = 64

    def __init__(self, settings, obs_shape):
        super().__init__(nn.Linear(8, 64))

    def forward(self, obs):
        return super().forward(obs)


class OfImages(nn.Module):
    """Takes images alone."""

    def __init__(self, settings, obs_shape):
        super().__init__()
        self.features = obs_shape[2]


class Plain:
    """Not a module."""

    features = 4

    def __init__(self, settings, obs_shape):
        self.weight = torch.zeros(4)


class NoGreedy(Algorithm):
    """Forgets a method."""

    tables, agent, learner = QrDqn.tables, QrDqn.agent, QrDqn.learner


def misfit(part, **methods):
    """QrDqn whose agent, learner or player has these methods."""
    own = type(part.__name__, (part,), methods)
    makes = {
        Agent: {"agent": lambda self, streams: own(self, streams)},  # noqa: PLW0108 (binds self)
        Learner: {"learner": lambda self, device, seed: own(self, self.net, device, seed)},
        Player: {"greedy": lambda self, num_envs: own(self.net())},
    }
    return type("Misfit", (QrDqn,), makes[part])


def items(change):
    """An agent that changes its items."""
    return misfit(Agent, items=lambda self, steps: change(Agent.items(self, steps)[TABLE]))


def acts(change):
    """An agent that changes its columns."""
    return misfit(Agent, act=lambda self, rows: change(*Agent.act(self, rows)))


def learns(change):
    """A learner that changes what it has learned."""
    return misfit(Learner, step=lambda self, batches: change(Learner.step(self, batches)))


UnknownColumns = acts(lambda action, columns: (action, {"replays": columns[TABLE]}))
NoColumns = acts(lambda action, columns: (action, {}))
ActionsAlone = acts(lambda action, columns: action)
UnknownItems = items(lambda made: {"replays": made})
NoItems = items(lambda made: None)
FewPriorities = items(lambda made: {TABLE: Items(made.streams, made.steps, made.priorities[1:])})
LostItems = items(lambda made: {TABLE: Items(made.streams, made.steps + 9999, made.priorities)})
NoFigures = misfit(Agent, figures=None)
ListedFigure = misfit(Agent, figures=lambda self: {"epsilons": np.arange(3)})
NotCounted = misfit(Learner, end_step=lambda self, period: None)
NothingLearned = learns(lambda learned: None)
WordyLoss = learns(lambda learned: Learned({"loss": "low"}))
LongLoss = learns(lambda learned: Learned({"loss": torch.ones(5)}))
UnknownPriorities = learns(lambda learned: Learned({}, {"replays": learned.priorities[TABLE]}))
FewNewPriorities = learns(lambda learned: Learned({}, {TABLE: learned.priorities[TABLE][1:]}))
ArrayParams = misfit(Learner, params=lambda self: {"bias": np.zeros(3)})
NoAct = misfit(Player, act=None)
FloatActions = acts(lambda action, columns: (action.astype(np.float32), columns))
UnknownAction = acts(lambda action, columns: (action + 7, columns))
UnknownGreedyAction = misfit(Player, act=lambda self, rows: Player.act(self, rows) - 3)
NegativePriority = items(
    lambda made: {TABLE: Items(made.streams, made.steps, made.priorities - 99)}
)
NegativeNewPriority = learns(lambda learned: Learned({}, {TABLE: np.full(16, -0.08)}))
TakenFigure = learns(lambda learned: Learned({"env_steps": 5.0}))
TimeFigure = learns(lambda learned: Learned({"time": 0.25}))
TakenActorFigure = misfit(Agent, figures=lambda self: {"episodes": 3})


class DoubleFeatures(nn.Sequential):
    """Computes in another precision."""

    features = 8

    def __init__(self, settings, obs_shape):
        super().__init__(nn.Linear(obs_shape[0], 8))

    def forward(self, obs):
        return super().forward(obs).double()
