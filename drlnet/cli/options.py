"""Options that several commands share, declared once so that they read and behave the same."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from drlnet.cli import completion

DEFAULT_ADDRESS = "udp://127.0.0.1:7447"
EAL_VARIABLE = "DRLNET_EAL"  # read when DPDK starts
KEY_VARIABLE = "DRLNET_KEY_FILE"  # drlnet/config/keys.py
# Whose key a command takes out of a folder; others leave that to the processes that they start.
_KEY_OWNERS = {
    "serve": "server",
    "actor": "actor",
    "learn": "learner",
    "infer": "learner",
    "stats": "viewer",
    "watch": "viewer",
}


def _print_config_help(context: typer.Context, asked: bool) -> None:
    if asked:
        from drlnet.cli.config_help import print_config_help

        print_config_help(context)
        raise typer.Exit


def _pass_eal(arguments: str | None) -> str | None:
    # Through the environment: the processes that a command starts must have them, too.
    if arguments is not None:
        os.environ[EAL_VARIABLE] = arguments
    return arguments


def _pass_key(context: typer.Context, key: Path | None) -> Path | None:
    # Through the environment, as its path: neither a process nor its arguments show a key.
    if key is None or context.resilient_parsing:
        return key
    from drlnet.config.keys import key_path

    owner = _KEY_OWNERS.get(context.info_name or "")
    path = key.absolute() if owner is None else key_path(key.absolute(), owner)
    os.environ[KEY_VARIABLE] = str(path)
    return path


def require_dpdk(eal: str | None, places: Collection[str] | None) -> None:
    """Raises ConfigError for --eal where none of these addresses or transports is of DPDK.

    None: all transports that can be had.
    """
    from drlnet.errors import ConfigError

    if not eal or places is None:
        return
    if not any(place.startswith("dpdk:") for place in places):
        raise ConfigError(
            f"--eal is for DPDK, which {', '.join(places)} does without",
            "leave it out, or choose one of dpdk:...",
        )


EnvOrRunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="ENV",
        autocompletion=completion.environments,
        help="gymnasium id of the environment, e.g. CartPole-v1; left out with --resume RUN",
    ),
]
EnvArgument = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        autocompletion=completion.environments,
        help="gymnasium id of the environment, e.g. CartPole-v1, or my_module:MyEnv-v0",
    ),
]
EnvOfRunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="ENV",
        autocompletion=completion.environments,
        help="gymnasium id of the environment; left out: that of the server's run, with its "
        "settings",
    ),
]
EnvOrJoinArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="ENV",
        autocompletion=completion.environments,
        help="gymnasium id of the environment, e.g. CartPole-v1; left out with --join RUN",
    ),
]
ResumeOption = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        autocompletion=completion.runs,
        help="go on from a run's folder: params, optimizer, counters; its settings, unless given",
        rich_help_panel="Settings",
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="ADDRESS",
        help="address of the replay server, as it printed it: udp://HOST:PORT, dpdk:local, ... "
        f"[dim](default: the only one that runs here, or {DEFAULT_ADDRESS})[/dim]",
    ),
]
EalOption = Annotated[
    str | None,
    typer.Option(
        "--eal",
        metavar="ARGS",
        callback=_pass_eal,
        rich_help_panel="Server and network",
        help="more arguments for DPDK, e.g. '-m 1024'; '--help' lists them",
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        envvar=KEY_VARIABLE,
        show_envvar=False,
        callback=_pass_key,
        rich_help_panel="Server and network",
        help="seal sessions: a key file of drlnet keygen, or its folder",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help='TOML file of settings, over the recipe\'s (base = "none" in it: over the defaults)',
        rich_help_panel="Settings",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=completion.settings,
        help="any one setting, e.g. replay.batch_size=256; wins over all else; repeatable",
        rich_help_panel="Settings",
    ),
]
HelpConfigOption = Annotated[
    bool,
    typer.Option(
        "--help-config",
        callback=_print_config_help,
        is_eager=True,
        help="list every setting with its value and where that value comes from, then exit",
        rich_help_panel="Settings",
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="progress to stderr; the last line of stdout is one JSON object",
        rich_help_panel="Output",
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option("--debug", help="a traceback with every error", rich_help_panel="Output"),
]
