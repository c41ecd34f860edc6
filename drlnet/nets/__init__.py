"""Networks: torch modules from observations to features, one file each, and what they share.

A network is a class `Net(settings, obs_shape)`, a torch.nn.Module from [n, *obs_shape] to
[n, features], with the attribute `features`. An algorithm puts its heads on top. Your own is named
`net.name = "my_module:MyNet"`; a dataclass `MyNet.Settings` adds settings to the section [net].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drlnet.config import NetSettings, plugins
from drlnet.errors import DrlnetError, UserCodeError
from drlnet.lazy import torch
from drlnet.nets.fit import require_image, stacked_shape
from drlnet.nets.settings import (
    CompactSettings,
    ConvSettings,
    Dqn2013Settings,
    ImpalaSettings,
    MinAtarSettings,
    MlpSettings,
    OptimizerName,
    OptimizerSettings,
)

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces

_CONV = "drlnet.nets.conv:Conv"
NAMES = {
    "mlp": "drlnet.nets.mlp:Mlp",  # the default first
    "nature": _CONV,
    "dqn2013": _CONV,
    "minatar": _CONV,
    "compact": _CONV,
    "impala": "drlnet.nets.impala:Impala",
}
SETTINGS: dict[str, type[NetSettings]] = {
    "mlp": MlpSettings,
    "nature": ConvSettings,
    "dqn2013": Dqn2013Settings,
    "minatar": MinAtarSettings,
    "compact": CompactSettings,
    "impala": ImpalaSettings,
}


def make_net(config: Config, spaces: EnvSpaces) -> Any:
    """The network that [net] chooses, for these observations; initialised from torch's seed.

    What it sees is [n, *shape], with a stack of frames (net.frame_stack above 1) [n, k, *shape].
    Raises ConfigError where it does not fit them, UserCodeError for what a user's own raises.
    """
    shape = stacked_shape(spaces.obs_shape, config.net.frame_stack)
    kind = plugins.find("nets", config.net.name)
    if ":" not in config.net.name:
        return kind(config.net, shape)
    try:
        net = kind(config.net, shape)
    except DrlnetError:
        raise
    except Exception as error:  # the network is a user's code
        what = f"net.name = {config.net.name!r} cannot be made for observations of {list(shape)}: "
        raise UserCodeError.of(what, error) from error
    _require_features(config.net.name, net, shape, spaces.obs_dtype)
    return net


def _require_features(name: str, net: Any, shape: Sequence[int], dtype: str) -> None:
    """Runs a user's network once. Raises UserCodeError where it does not keep the contract."""
    if not isinstance(net, torch.nn.Module):
        raise UserCodeError(
            f"net.name = {name!r} does not derive from torch.nn.Module",
            "derive its class from torch.nn.Module",
        )
    obs, training = torch.zeros(1, *shape, dtype=getattr(torch, dtype)), net.training
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=()):  # it shall leave no trace
            found = net.eval()(obs)
    except Exception as error:  # the network is a user's code
        what = f"net.name = {name!r} does not take {dtype} observations of {list(obs.shape)}: "
        raise UserCodeError.of(what, error) from error
    net.train(training)
    made = list(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
    features = getattr(net, "features", None)
    if not isinstance(features, int) or made != [1, features]:
        raise UserCodeError(
            f"net.name = {name!r} makes {made} of observations {list(obs.shape)}, and has "
            + ("no attribute features" if features is None else f"features = {features!r}"),
            "let forward() return [n, features], and set self.features to that number "
            "(drlnet help algorithms)",
        )
    if found.dtype != torch.float32:
        raise UserCodeError(
            f"net.name = {name!r} makes {str(found.dtype).removeprefix('torch.')} features",
            "let forward() return torch.float32: end with .float()",
        )


def frozen(net: torch.nn.Module) -> torch.nn.Module:
    """The network as one that acts or is a target: in evaluation mode, without gradients.

    What adapts as it computes, as a spectral norm does, is left as the params brought it.
    """
    return net.eval().requires_grad_(False)


__all__ = [
    "NAMES",
    "SETTINGS",
    "MlpSettings",
    "OptimizerName",
    "OptimizerSettings",
    "frozen",
    "make_net",
    "require_image",
    "stacked_shape",
]
