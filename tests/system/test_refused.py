"""What does not fit together: one line of cause, one of remedy, before anything is started."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from system.command import finished, lines_of_error

import drlnet
from drlnet import errors
from drlnet.algos import require_fit
from drlnet.config import load

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"


@dataclass(frozen=True)
class Case:
    """Settings that cannot work, and what is said of them."""

    error: type[errors.DrlnetError]
    cause: str
    remedy: str
    env: str = "CartPole-v1"
    algo: str = "dqn"
    sets: dict[str, Any] = field(default_factory=dict)

    @property
    def args(self) -> list[str]:
        """The arguments of a command."""
        sets = [f"{key}={value}" for key, value in self.sets.items()]
        return [self.env, "--algo", self.algo, *(word for one in sets for word in ("--set", one))]


CASES = {
    "continuous actions": Case(
        errors.UnknownEnvironment, "needs a Discrete or MultiDiscrete one", "a finite set",
        env="Pendulum-v1",
    ),
    "numbered states for an image network": Case(
        errors.ConfigError, "sees one image, and the observations", "--algo tabular",
        env="FrozenLake-v1", sets={"net.name": "minatar"},
    ),
    "numbers for an image network": Case(
        errors.ConfigError, "sees one image, and the observations of CartPole-v1 are float32[4]",
        "net.name=mlp", sets={"net.name": "impala"},
    ),
    "a table of what is no number": Case(
        errors.ConfigError, "keeps a value for each Discrete observation", "--algo dqn",
        algo="tabular",
    ),
    "a queue without a limiter": Case(
        errors.ConfigError, "its table is a queue", "set replay.max_times_sampled to 1",
        algo="pqn", sets={"replay.max_times_sampled": 0, "replay.capacity": 50_000},
    ),
    "echo where each item is drawn once": Case(
        errors.ConfigError, "each item is used once", "leave learner.echo out",
        algo="vtrace", sets={"learner.echo": 2},
    ),
    "unrolls longer than their share of the ring": Case(
        errors.Deadlock, "rows are overwritten before they make an item", "set replay.capacity",
        algo="pqn", sets={"algo.unroll": 2048, "replay.capacity": 50_000},
    ),
    "lambda above 1": Case(
        errors.ConfigError, "algo.trace = 1.5: the most is 1", "lower algo.trace",
        algo="pqn", sets={"algo.trace": 1.5},
    ),
    "lambda below 0": Case(
        errors.ConfigError, "algo.trace = -0.1: the least is 0", "raise algo.trace",
        algo="vtrace", sets={"algo.trace": -0.1},
    ),
    "a minibatch larger than a batch": Case(
        errors.ConfigError, "exceeds the 1024 steps of a batch", "lower it to 1024",
        algo="pqn", sets={"algo.minibatch_size": 1025},
    ),
    "a minibatch larger than a process's part of a batch": Case(
        errors.ConfigError, "exceeds the 512 steps of a batch", "lower it to 512",
        algo="pqn", sets={"algo.minibatch_size": 1024, "learner.processes": 2},
    ),
    "a network that does not normalise": Case(
        errors.ConfigError, "which net.name = 'parts:Fourier' does not offer", "a field 'norm'",
        algo="pqn", sets={"net.name": "parts:Fourier"},
    ),
    "a network of other features than it says": Case(
        errors.UserCodeError, "makes [1, 64] of observations [1, 4], and has features = 32",
        "set self.features to that number", sets={"net.name": "misfits:WrongFeatures"},
    ),
    "a network without features": Case(
        errors.UserCodeError, "makes [1, 64] of observations [1, 4], and has no attribute features",
        "set self.features to that number", sets={"net.name": "misfits:NoFeatures"},
    ),
    "a network for other observations": Case(
        errors.UserCodeError, "'misfits:ForEight' does not take float32 observations of [1, 4]: "
        "RuntimeError", "the traceback", sets={"net.name": "misfits:ForEight"}, algo="vtrace",
    ),
    "a network that cannot be made": Case(
        errors.UserCodeError, "'misfits:OfImages' cannot be made for observations of [4]: "
        "IndexError: tuple index out of range, in misfits.py", "the traceback",
        sets={"net.name": "misfits:OfImages"}, algo="r2d2",
    ),
    "a network of double precision": Case(
        errors.UserCodeError, "'misfits:DoubleFeatures' makes float64 features",
        "return torch.float32", sets={"net.name": "misfits:DoubleFeatures"},
    ),
    "a network that is none": Case(
        errors.UserCodeError, "'misfits:Plain' does not derive from", "derive its class",
        sets={"net.name": "misfits:Plain"},
    ),
    "rows that fill more than a question": Case(
        errors.ConfigError, "asks with 10486 rows of 25 bytes, and a request holds 262,144",
        "lower actor.envs_per_actor to 10485", sets={
            "policy.where": "central", "actor.envs_per_actor": 10_486,
            "replay.capacity": 1_000_000, "replay.error_buffer": 1e6,
        },
    ),
    "a burn-in that leaves nothing": Case(
        errors.ConfigError, "leaves nothing to learn of", "set algo.burn_in below algo.length",
        algo="r2d2", sets={"algo.burn_in": 80},
    ),
    "an optimizer that is not installed": Case(
        errors.NotInstalled, "apollo-torch is not installed", "pip install 'drlnet[apollo]'",
        sets={"algo.optimizer": "apollo"},
    ),
}  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_refused_before_there_is_a_run(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.setitem(sys.modules, "apollo_torch", None)  # as if it were not installed
    with pytest.raises(case.error) as raised:
        drlnet.train(case.env, case.sets, algo=case.algo, quiet=True)
    assert type(raised.value) is case.error
    assert case.cause in raised.value.cause and case.remedy in raised.value.remedy
    assert "\n" not in raised.value.cause + raised.value.remedy
    assert not [*tmp_path.iterdir()]


@pytest.mark.fast
def test_only_a_learner_needs_an_optimizers_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apollo_torch", None)
    config = load("CartPole-v1", sets={"algo.optimizer": "apollo"})
    assert require_fit(config, learns=False).num_actions == 2
    with pytest.raises(errors.NotInstalled):
        require_fit(config)


# One that the settings alone tell, one that only the environment's spaces do.
@pytest.mark.parametrize(
    "case", ["a minibatch larger than a batch", "numbered states for an image network"]
)
@pytest.mark.parametrize("command", ["run", "learn", "actor", "infer"])
def test_every_command_refuses_it(command: str, case: str, tmp_path: Path) -> None:
    """There is no server: what would start first would wait for one."""
    one = CASES[case]
    ended = finished(tmp_path, command, *one.args, error=one.error)
    cause, remedy = lines_of_error(ended)
    assert one.cause in cause and one.remedy in remedy
    assert not [*tmp_path.iterdir()]


def test_a_recurrent_run_goes_on_with_its_own_size_alone(tmp_path: Path) -> None:
    few = ("--set", "replay.min_size=4", "--max-learner-steps", "2", "--set", "algo.length=8")
    sizes = ("--set", "algo.period=4", "--set", "algo.burn_in=4", "--set", "algo.units=8")
    folder = ("--set", "run.folder=first", "--set", "eval.report_episodes=20")
    ended = finished(
        tmp_path, "run", "CartPole-v1", "--algo", "r2d2", "--serial", *few, *sizes, *folder
    )
    before = sorted(path.name for path in (tmp_path / "first").iterdir())
    for command in ("run", "learn"):
        other = ("--resume", "first", "--set", "algo.units=16")
        ended = finished(tmp_path, command, *other, error=errors.CheckpointMismatch)
        cause, _ = lines_of_error(ended)
        assert "units=8" in cause and "units=16" in cause
    assert sorted(path.name for path in (tmp_path / "first").iterdir()) == before
