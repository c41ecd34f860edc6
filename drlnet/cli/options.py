"""Options that several commands share, declared once so that they read and behave the same."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

DEFAULT_ADDRESS = "udp://127.0.0.1:7447"
EAL_VARIABLE = "DRLNET_EAL"  # read when DPDK starts
# In words: `--help` does not wait for what knows them. A test holds them against it.
SAMPLERS = "prioritized, uniform, fifo, amper-k, amper-fr, amper-fr-prefix"
TRANSPORTS = "udp, dpdk:local, dpdk:memif, dpdk:virtio-user"


def _print_config_help(asked: bool) -> None:
    if asked:
        from drlnet.cli.config_help import print_config_help

        print_config_help()
        raise typer.Exit


def _pass_eal(arguments: str | None) -> str | None:
    # Through the environment: the processes that a command starts must have them, too.
    if arguments is not None:
        os.environ[EAL_VARIABLE] = arguments
    return arguments


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


EnvArgument = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="gymnasium id of the environment, e.g. CartPole-v1, or my_module:MyEnv-v0",
    ),
]
ServerOption = Annotated[
    str,
    typer.Option(
        "--server",
        metavar="ADDRESS",
        help="address of the replay server, as it printed it: udp://HOST:PORT, dpdk:local, ...",
    ),
]
PollOption = Annotated[
    Literal["busy", "adaptive", "block"] | None,
    typer.Option(
        "--poll",
        help="spin for packets, spin briefly then sleep, or sleep [dim](default adaptive)[/dim]",
    ),
]
EalOption = Annotated[
    str | None,
    typer.Option(
        "--eal",
        metavar="ARGS",
        callback=_pass_eal,
        help="more arguments for DPDK's environment layer, e.g. '-m 1024'; '--help' lists them",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file of settings, in place of the environment's recipe",
        rich_help_panel="Settings",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
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
        help="list every setting with its default, and exit",
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
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", help="every random number follows [dim](default 0)[/dim]"),
]
GoalOption = Annotated[
    float | None,
    typer.Option(
        "--goal",
        help="stop when the mean greedy return reaches it [dim](default: the recipe's)[/dim]",
    ),
]
MaxSecondsOption = Annotated[
    float | None,
    typer.Option(
        "--max-seconds",
        help="stop training after so many seconds [dim](default: the recipe's)[/dim]",
    ),
]
MaxEnvStepsOption = Annotated[
    int | None, typer.Option("--max-env-steps", help="stop after so many steps of all actors")
]
MaxLearnerStepsOption = Annotated[
    int | None, typer.Option("--max-learner-steps", help="stop after so many learner steps")
]
SamplerOption = Annotated[
    str | None,
    typer.Option(
        "--sampler",
        metavar="NAME",
        help=f"how items are drawn: {SAMPLERS}; its options are replay.sampler_options (--set); "
        "the same for learner and actors [dim](default prioritized)[/dim]",
    ),
]
NumActorsOption = Annotated[
    int | None,
    typer.Option(
        "--num-actors", metavar="N", help="actor processes [dim](default: the recipe's, or 1)[/dim]"
    ),
]
EnvsPerActorOption = Annotated[
    int | None,
    typer.Option(
        "--envs-per-actor",
        metavar="M",
        help="environments that one actor steps [dim](default: the recipe's, or 8)[/dim]",
    ),
]


def budget_flags(
    seed: int | None,
    goal: float | None,
    max_seconds: float | None,
    max_env_steps: int | None,
    max_learner_steps: int | None,
) -> dict[str, Any]:
    """These options as config keys."""
    return {
        "run.seed": seed,
        "run.goal": goal,
        "run.max_seconds": max_seconds,
        "run.max_env_steps": max_env_steps,
        "run.max_learner_steps": max_learner_steps,
    }
