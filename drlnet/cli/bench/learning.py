"""`drlnet bench learning`: what a sampler does for learning."""

from __future__ import annotations

from typing import Annotated

import typer

from drlnet.cli.bench.report import OutFileOption, end, names_in, require_writable_file, write_file
from drlnet.cli.options import ConfigOption, DebugOption, EnvArgument, JsonOption, SetOption
from drlnet.cli.output import Output
from drlnet.cli.stopping import until_stopped


def learning(
    env: EnvArgument,
    samplers: Annotated[
        str,
        typer.Option(
            "--samplers",
            metavar="NAME,...",
            help="which [dim](default prioritized, amper-k, amper-fr, amper-fr-prefix, "
            "uniform)[/dim]",
            show_default=False,
        ),
    ] = "prioritized,amper-k,amper-fr,amper-fr-prefix,uniform",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="runs with each sampler")] = 5,
    max_learner_steps: Annotated[
        int, typer.Option("--max-learner-steps", min=1, help="the budget of each run")
    ] = 10_000,
    out: OutFileOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Steps to the goal and greedy return with each sampler, all else alike.

    Serial runs by the environment's recipe: their steps are reproducible bit by
    bit.

    [bold]Examples[/bold]

    drlnet bench learning CartPole-v1 --max-learner-steps 8000

    drlnet bench learning Acrobot-v1 --samplers prioritized,uniform --seeds 3
    """
    from drlnet.bench.learning import Learned, measure_learning

    output = Output(json)

    def report(run: Learned) -> None:
        end = "reached the goal" if run.reached else "spent its budget"
        output.note(
            f"{run.subject} seed {run.seed}: {end}, {run.env_steps} env steps, greedy return "
            f"{run.eval_return_mean:.1f} +- {run.eval_return_std:.1f} ({run.wall_clock_s:.0f} s)"
        )

    require_writable_file(out)
    with until_stopped() as stop:
        measured = measure_learning(
            env, names_in(samplers) or [], seeds, stop, report,
            file=config, sets=set_ or (), max_learner_steps=max_learner_steps,
        )  # fmt: skip
        write_file(output, out, measured)
        output.result(end(output, stop, measured))
