"""Params as bytes: what fits comes back equal, what does not is told by its content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from drlnet.errors import CheckpointMismatch, UserCodeError
from drlnet.nets.mlp import Mlp
from drlnet.nets.params import (
    load,
    load_into,
    pack,
    pack_state,
    read_metadata,
    save,
    unpack,
    unpack_state,
)
from drlnet.nets.settings import MlpSettings

NET = Mlp(MlpSettings(hidden_sizes=(8,)), (4,))
ARCHITECTURE = "mlp hidden=8"
BLOB = pack(NET.state_dict(), ARCHITECTURE, {"learner_steps": "7"})


def test_round_trip() -> None:
    params = unpack(BLOB, ARCHITECTURE, "here")
    other = Mlp(MlpSettings(hidden_sizes=(8,)), (4,))
    other.load_state_dict(params)
    obs = torch.randn(3, 4)
    assert torch.equal(other(obs), NET(obs))
    assert read_metadata(BLOB)["learner_steps"] == "7"


def test_equal_params_are_equal_bytes() -> None:
    facts = {f"fact {i}": "x" for i in range(20)}
    blobs = [pack(NET.state_dict(), ARCHITECTURE, facts) for _ in range(5)]
    assert len(set(blobs)) == 1


def test_another_architecture() -> None:
    with pytest.raises(CheckpointMismatch, match=r"hidden=8.*hidden=16") as info:
        unpack(BLOB, "mlp hidden=16", "version 3")
    assert "version 3" in info.value.cause and info.value.remedy


@pytest.mark.parametrize("size", [0, 3, 8, 20, len(BLOB) - 1])
def test_cut_short(size: int) -> None:
    with pytest.raises(CheckpointMismatch):
        unpack(BLOB[:size], ARCHITECTURE, "here")


def test_no_safetensors_at_all() -> None:
    with pytest.raises(CheckpointMismatch):
        unpack(b"\x80\x04" + b"pickle" * 20, ARCHITECTURE, "here")
    for header in (
        b"[]",
        b"\xff\xfe",
        b'{"__metadata__": 3}',
        b'{"__metadata__": {"drlnet": "3"}}',
    ):
        blob = len(header).to_bytes(8, "little") + header
        with pytest.raises(CheckpointMismatch):
            unpack(blob, ARCHITECTURE, "here")


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save(path, BLOB)
    assert load(path, ARCHITECTURE).keys() == NET.state_dict().keys()
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint.safetensors"]
    with pytest.raises(CheckpointMismatch, match="cannot be read"):
        load(tmp_path / "none", ARCHITECTURE)


@pytest.mark.parametrize(
    ("theirs", "cause"),
    [
        ({"0.weight": None}, "1 tensors differ, first '0.weight' (none in the"),
        ({"9.bias": torch.zeros(2)}, "first '9.bias' ([2] in the params, none in"),
        ({"0.bias": torch.zeros(3)}, "'0.bias' ([3] in the params, [8] in the net"),
    ],
)
def test_a_network_whose_code_has_changed(
    theirs: dict[str, torch.Tensor | None], cause: str
) -> None:
    """Its settings, and so its architecture, say the same as before."""
    params = {**NET.state_dict(), **theirs}
    found = {name: tensor for name, tensor in params.items() if tensor is not None}
    with pytest.raises(CheckpointMismatch) as info:
        load_into(Mlp(MlpSettings(hidden_sizes=(8,)), (4,)), found)
    assert cause in info.value.cause and "\n" not in info.value.cause + info.value.remedy


def test_layers_that_share_a_tensor_are_stored() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    net.append(net[0])
    params = net.state_dict()
    params["half"] = params["0.weight"][1:]
    found = unpack(pack(params, "a"), "a", "here")
    assert found.keys() == params.keys()
    assert all(torch.equal(found[name], params[name]) for name in params)


def test_more_tensors_than_can_be_read_back_are_refused() -> None:
    with pytest.raises(UserCodeError, match="10,000 tensors are too many for one file"):
        pack({f"{'layer' * 20}.{i}": torch.zeros(1) for i in range(10_000)}, "a")


def through_a_file(state: Any) -> Any:
    return unpack_state(pack_state(state, "a", {}), "a", "here")


def test_a_state_may_hold_numpy_s_values_and_long_lists() -> None:
    state = {
        "counts": np.arange(6).reshape(2, 3)[:, ::2],
        "mean": np.array(0.5),
        "masks": [np.array([True, False]), torch.ones(2, dtype=torch.bool)],
        "returns": [float(n) for n in range(120_000)],
        "numbers": [np.int64(3), np.float32(0.5), np.bool_(True), None, "text"],
    }
    found = through_a_file(state)
    assert found.keys() == state.keys() and found["returns"] == state["returns"]
    for name in ("counts", "mean"):
        np.testing.assert_array_equal(found[name], state[name], strict=True)
    np.testing.assert_array_equal(found["masks"][0], state["masks"][0], strict=True)
    assert isinstance(found["masks"][1], torch.Tensor)
    assert found["numbers"] == [3, 0.5, True, None, "text"]
    found["counts"] += 1


def test_a_state_s_keys_stay_what_they_are() -> None:
    state = {1: torch.zeros(1), "1": torch.ones(1), (2, (3, "x")): 4, "a tensor": {"pairs": 5}}
    nested = {"a.b": torch.zeros(2), "a": {"b": torch.ones(2)}}
    found, apart = through_a_file(state), through_a_file(nested)
    assert list(found) == list(state) and (float(found[1]), float(found["1"])) == (0, 1)
    assert found[2, (3, "x")] == 4 and found["a tensor"] == {"pairs": 5}
    assert float(apart["a.b"].sum()) == 0 and float(apart["a"]["b"].sum()) == 2


def test_an_optimizer_of_torchs_goes_on_with_its_moments() -> None:
    net = nn.Linear(2, 1)
    first, second = (torch.optim.Adam(net.parameters()) for _ in range(2))
    net(torch.ones(3, 2)).sum().backward()
    first.step()
    second.load_state_dict(through_a_file(first.state_dict()))
    for param in net.parameters():
        assert torch.equal(second.state[param]["exp_avg"], first.state[param]["exp_avg"])


def test_a_state_of_an_earlier_version_is_read() -> None:
    tree = json.dumps({"net": {"a tensor": "state.net"}, "steps": 3})
    found = unpack_state(pack({"state.net": torch.ones(2)}, "a", {"state": tree}), "a", "here")
    assert torch.equal(found["net"], torch.ones(2)) and found["steps"] == 3


@pytest.mark.parametrize("value", [{1, 2}, np.array([{}]), np.datetime64("2026-01-01")])
def test_what_cannot_be_stored_is_named(value: Any) -> None:
    with pytest.raises(UserCodeError, match=r"state\.learner\.seen\.1 is (of the|an array)"):
        pack_state({"learner": {"seen": [0, value]}}, "a", {})
