"""Networks that act or are targets leave what adapts in them as it was trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from drlnet.algos import NAMES, TargetNetLearner, make_algorithm
from drlnet.config import load
from drlnet.envs import EnvSpaces, Rows, Streams

SPACES = EnvSpaces(obs_shape=(12, 12, 1), obs_dtype="uint8", num_actions=3, first_action=0)
OF_NETWORKS = [name for name in NAMES if name != "tabular"]
FLAGS = {
    "net.name": "impala", "net.spectral_norm": True, "net.channels": (4,), "net.hidden_sizes": (8,),
    "net.norm": "none", "net.precision": "float32",
}  # fmt: skip


def rows(count: int = 2, mask: npt.NDArray[np.bool_] | None = None) -> Rows:
    off = np.zeros(count, bool)
    obs = np.random.default_rng(0).integers(0, 255, (count, 12, 12, 1), np.uint8)
    return Rows(
        obs=obs, reward=np.zeros(count, np.float32), terminated=off, truncated=off, first=~off,
        last=off, mask=mask,
    )  # fmt: skip


@pytest.mark.parametrize("name", OF_NETWORKS)
def test_acting_and_targets_move_no_spectral_norm(name: str) -> None:
    algo = make_algorithm(load(flags={"algo.name": name, **FLAGS}), SPACES)
    learner = algo.learner("cpu", 1)
    streams = Streams(np.arange(2), first=0, total=2, rng=np.random.default_rng(1))
    agent, player = algo.agent(streams), algo.greedy(2)
    for one in (agent, player):
        one.load(learner.params())
        for _ in range(3):
            one.act(rows())
        for key, param in one.net.state_dict().items():  # type: ignore[attr-defined]
            assert torch.equal(param, learner.params()[key]), key
    if isinstance(learner, TargetNetLearner):
        assert not any(module.training for module in learner.target.modules())
        assert not any(param.requires_grad for param in learner.target.parameters())
    assert learner.online.training  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", OF_NETWORKS)
@pytest.mark.parametrize("present", [(1,), (0, 4, 5), (1, 2, 3, 6, 7)])
def test_a_network_sees_the_rows_that_are_there(name: str, present: tuple[int, ...]) -> None:
    """Its answers for them are those that it gives to all rows together."""
    count, sizes = 9, []
    algo = make_algorithm(load(flags={"algo.name": name, **FLAGS}), SPACES)
    params = algo.learner("cpu", 1).params()
    mask = np.isin(np.arange(count), present)
    whole, part = algo.greedy(count), algo.greedy(count)
    for one in (whole, part):
        one.load(params)
    torso = next(part.net.children())  # type: ignore[attr-defined]
    torso.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    for _ in range(3):  # the recurrent ones remember
        expected, found = whole.act(rows(count)), part.act(rows(count, mask))
        assert np.array_equal(found[mask], expected[mask])
    assert set(sizes) == {1 << (len(present) - 1).bit_length()}


@pytest.mark.parametrize("name", OF_NETWORKS)
def test_all_that_a_network_sees_is_at_its_device(name: str) -> None:
    """A meta tensor has no values: what is passed to it from elsewhere, or read, raises."""
    spaces = EnvSpaces(obs_shape=(4,), obs_dtype="float32", num_actions=3, first_action=0)
    algo = make_algorithm(load(flags={"algo.name": name, "net.name": "mlp"}), spaces)
    player, passed = algo.greedy(2), list[torch.device]()
    player.to(torch.device("meta"))  # type: ignore[attr-defined]
    player.net.register_forward_hook(  # type: ignore[attr-defined]
        lambda _net, inputs, _output: passed.extend(one.device for one in inputs)
    )
    with pytest.raises(NotImplementedError, match="copy out of meta tensor"):
        player.act(replace(rows(), obs=np.zeros((2, 4), np.float32)))
    assert {device.type for device in passed} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", OF_NETWORKS)
def test_a_gpu_acts_as_a_processor_does(name: str) -> None:
    algo = make_algorithm(load(flags={"algo.name": name, **FLAGS}), SPACES)
    params = algo.learner("cpu", 1).params()
    here, there = algo.greedy(9), algo.greedy(9)
    there.to(torch.device("cuda"))  # type: ignore[attr-defined]
    for one in (here, there):
        one.load(params)
    for _ in range(3):
        assert np.array_equal(there.act(rows(9)), here.act(rows(9)))
