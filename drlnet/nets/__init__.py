"""Networks: torch modules from observations to features, one file each, and what they share.

A network is a class `Net(settings, obs_shape)`, a torch.nn.Module from [n, *obs_shape] to
[n, features], with the attribute `features`. An algorithm puts its heads on top. Your own is named
`net.name = "my_module:MyNet"`; a dataclass `MyNet.Settings` adds settings to the section [net].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drlnet.config import NetSettings, plugins
from drlnet.nets.settings import MlpSettings

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces

NAMES = {"mlp": "drlnet.nets.mlp:Mlp"}  # the default first
SETTINGS: dict[str, type[NetSettings]] = {"mlp": MlpSettings}


def make_net(config: Config, spaces: EnvSpaces) -> Any:
    """The network that [net] chooses, for these observations; initialised from torch's seed."""
    return plugins.find("nets", config.net.name)(config.net, spaces.obs_shape)


__all__ = ["NAMES", "SETTINGS", "MlpSettings", "make_net"]
