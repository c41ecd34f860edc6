"""Networks over images: shapes in any order, bytes, normalisation, and what does not fit."""

from __future__ import annotations

import dataclasses
from typing import Literal

import pytest
import torch

from drlnet.config import NetSettings
from drlnet.errors import ConfigError
from drlnet.nets import NAMES, SETTINGS, stacked_shape
from drlnet.nets.conv import Conv
from drlnet.nets.images import ImageNet
from drlnet.nets.impala import Impala, Residual
from drlnet.nets.mlp import Mlp
from drlnet.nets.settings import CompactSettings, ConvSettings, ImpalaSettings, MlpSettings

FITTING = {
    "mlp": (4,), "nature": (4, 84, 84), "dqn2013": (4, 42, 42), "minatar": (10, 10, 6),
    "compact": (4, 42, 42), "impala": (4, 64, 64),
}  # fmt: skip


def make(name: str, shape: tuple[int, ...], **settings: object) -> torch.nn.Module:
    filled: NetSettings = dataclasses.replace(SETTINGS[name](name=name), **settings)  # type: ignore[arg-type]
    return {"mlp": Mlp, "impala": Impala}.get(name, Conv)(filled, shape)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", list(NAMES))
@pytest.mark.parametrize("norm", ["none", "layer"])
def test_every_network_makes_features_and_learns(name: str, norm: str) -> None:
    torch.manual_seed(0)
    net = make(name, FITTING[name], norm=norm)
    features = net(torch.randint(0, 256, (3, *FITTING[name]), dtype=torch.uint8))
    assert features.shape == (3, net.features) and features.dtype == torch.float32
    features.square().mean().backward()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in net.parameters())
    normalised = any(isinstance(one, torch.nn.LayerNorm) for one in net.modules())
    assert normalised == (norm == "layer")


@pytest.mark.parametrize("name", ["compact", "impala"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_normalised_observation_has_mean_0_and_deviation_1(
    name: str, dtype: torch.dtype, precision: str
) -> None:
    net = make(name, FITTING[name], input_norm=True, precision=precision)
    seen: list[torch.Tensor] = []
    net.layers.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    obs = torch.randint(80, 240, (3, *FITTING[name])).to(dtype)
    obs[2] = 87  # all the same: there is nothing to bring to a deviation of 1
    net(obs)
    assert seen[0].dtype == getattr(torch, precision)
    flat = seen[0].float().flatten(1)
    assert flat.mean(1).abs().max() < (1e-4 if precision == "float32" else 1e-3)
    torch.testing.assert_close(flat.std(1), torch.tensor([1.0, 1.0, 0.0]), atol=1e-3, rtol=0)
    assert obs[0].flatten()[flat[0].argmax()] == obs[0].max()  # each pixel stays in its place


@pytest.mark.parametrize(
    ("shape", "image"),
    [
        ((9, 9), (1, 9, 9)),
        ((3, 9, 8), (3, 9, 8)),
        ((9, 8, 3), (3, 9, 8)),
        ((4, 9, 8), (4, 9, 8)),  # a stack of grey frames
        ((4, 3, 9, 8), (12, 9, 8)),
        ((4, 9, 8, 3), (12, 9, 8)),
    ],
)
def test_channels_come_first(shape: tuple[int, ...], image: tuple[int, int, int]) -> None:
    seen: list[torch.Tensor] = []

    class Keeps(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x)
            return x.flatten(1)

    settings = ConvSettings(precision="float32")
    net = ImageNet(settings, shape, lambda found: torch.nn.Sequential(Keeps()))
    obs = torch.randint(0, 256, (2, *shape), dtype=torch.uint8)
    net(obs)
    assert seen[-1].shape == (2, *image)
    # A pixel of the newest image's last channel, at the place where it was.
    channels_last = shape[-1] == 3
    known = obs[..., 7, 5, -1] if channels_last else obs[..., 7, 5]
    known = known.reshape(2, -1)[:, -1]
    torch.testing.assert_close(seen[-1][:, -1, 7, 5], known / 255.0)
    torch.testing.assert_close(net(obs), net(obs / 255.0))


def test_a_network_that_does_not_fit_is_told() -> None:
    for shape in [(4, 5, 5), (3,), (2, 2, 2, 2, 2)]:
        with pytest.raises(ConfigError) as caught:
            Conv(ConvSettings(name="nature"), shape)
        assert "net.name=mlp" in caught.value.remedy
    with pytest.raises(ConfigError, match="differ in length"):
        Conv(ConvSettings(channels=(8,)), (4, 84, 84))


def test_both_formats_agree_and_the_fastest_one_is_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drlnet.nets.images._known", {})
    torch.manual_seed(0)
    before = torch.get_rng_state()
    obs = torch.randint(0, 256, (8, 4, 42, 42), dtype=torch.uint8)
    exact = Conv(CompactSettings(precision="float32"), obs.shape[1:])
    rough = Conv(CompactSettings(precision="bfloat16"), obs.shape[1:])
    torch.set_rng_state(before)
    torch.randint(0, 256, (8, 4, 42, 42), dtype=torch.uint8)
    chosen = [Conv(CompactSettings(precision="auto"), obs.shape[1:]) for _ in range(2)]
    # A measurement draws nothing: the params are those that the seed makes.
    for one, other in zip(exact.parameters(), chosen[0].parameters(), strict=True):
        assert torch.equal(one, other)
    rough.load_state_dict(exact.state_dict())
    torch.testing.assert_close(exact(obs), rough(obs), atol=0.1, rtol=0.1)
    torch.testing.assert_close(exact(obs), chosen[0](obs), atol=0.1, rtol=0.1)
    assert capsys.readouterr().err.count("The network computes in") == 1


def test_a_format_that_is_far_slower_is_not_measured_for_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drlnet.nets.images._known", {})
    monkeypatch.setattr("drlnet.nets.images._FAR", 1.0)
    Conv(CompactSettings(precision="auto"), (4, 42, 42))
    assert capsys.readouterr().err.count(" ms") == 1


def test_impala_normalises_behind_each_convolution() -> None:
    """Without a dense layer, too: what scales a convolution changes nothing."""
    sizes = {"channels": (4, 8), "hidden_sizes": (), "precision": "float32"}
    net = make("impala", (4, 20, 20), norm="layer", **sizes)
    convs = [one for one in net.modules() if isinstance(one, torch.nn.Conv2d)]
    obs = torch.rand(2, 4, 20, 20)
    before = net(obs)
    with torch.no_grad():
        for conv in convs:
            conv.weight.mul_(8.0)
            conv.bias.mul_(8.0)
    torch.testing.assert_close(net(obs), before, atol=1e-3, rtol=1e-3)
    for norm, count in (("layer", len(convs)), ("none", 0)):
        made = make("impala", (4, 20, 20), norm=norm, spectral_norm=True, **sizes)
        assert sum(isinstance(one, torch.nn.GroupNorm) for one in made.modules()) == count


def test_spectral_norms_divide() -> None:
    plain, scaled = Residual(4, spectral=False), Residual(4, spectral=True)
    assert not hasattr(plain.first, "parametrizations")
    scaled.train()
    for _ in range(50):
        weight = scaled.first.weight.detach()
    norm = torch.linalg.matrix_norm(weight.flatten(1), ord=2)
    assert float(norm) == pytest.approx(1.0, abs=0.05)
    wide = Impala(ImpalaSettings(width=2, spectral_norm=True), (4, 32, 32))
    assert wide.layers[0].out_channels == 32


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_pool_leaves_the_pixels_that_it_says(precision: Literal["float32", "bfloat16"]) -> None:
    torch.manual_seed(0)
    chosen = ImpalaSettings(
        channels=(4, 8), hidden_sizes=(), pool=3, spectral_norm=True, precision=precision
    )
    for side in (20, 27):  # one network for images of any size
        obs = torch.randint(0, 256, (2, 4, side, side), dtype=torch.uint8)
        net = Impala(chosen, obs.shape[1:])
        assert net.features == 8 * 3 * 3
        net(obs).sum().backward()
        assert all(one.grad is not None for one in net.parameters())
    with pytest.raises(ConfigError, match=r"net\.pool = 3, .* 2 x 2 pixels") as caught:
        Impala(chosen, (4, 8, 8))
    assert "net.pool to 2 or less" in caught.value.remedy


def test_stacks_of_one_have_no_axis() -> None:
    assert stacked_shape((84, 84), 1) == (84, 84)
    assert stacked_shape((84, 84), 4) == (4, 84, 84)
    assert Mlp(MlpSettings(hidden_sizes=(8,)), (4, 3))(torch.zeros(2, 4, 3)).shape == (2, 8)
