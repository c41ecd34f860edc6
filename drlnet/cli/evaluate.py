"""`drlnet eval`: plays the saved policy of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drlnet.cli import completion
from drlnet.cli.options import DebugOption, JsonOption, SetOption
from drlnet.cli.output import Output

RunArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="RUN",
        autocompletion=completion.runs,
        help="the folder of a run, as `drlnet run` printed it [dim](default: the newest)[/dim]",
    ),
]
EpisodesOption = Annotated[
    int | None,
    typer.Option(
        "--episodes", min=1, help="how many [dim](default: the run's eval.report_episodes)[/dim]"
    ),
]
EvalSeedOption = Annotated[
    int | None, typer.Option("--seed", min=0, help="another seed than the run's")
]
VideoOption = Annotated[
    Path | None,
    typer.Option(
        "--video", metavar="FILE", help="film the first of the episodes, too: FILE.gif or FILE.mp4"
    ),
]
RenderOption = Annotated[
    bool, typer.Option("--render", help="show the first of the episodes in a window, too")
]


def evaluate(
    run: RunArgument = None,
    episodes: EpisodesOption = None,
    seed: EvalSeedOption = None,
    video: VideoOption = None,
    render: RenderOption = False,
    set_: SetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Play the saved policy of a run greedily; print mean, standard deviation and episodes.

    [bold]Examples[/bold]

    drlnet eval                                  [dim]# the newest run in runs/[/dim]

    drlnet eval runs/CartPole-v1-20260101-120000-0

    drlnet eval runs/CartPole-v1-20260101-120000-0 --episodes 20 --seed 7 --json

    drlnet eval runs/CartPole-v1-20260101-120000-0 --video cartpole.gif
    """
    from drlnet.cli.training import announce, result_of
    from drlnet.cli.video import check_video, show_film, write_video
    from drlnet.cli.which import newest_that_learned
    from drlnet.config import load

    if video is not None:
        check_video(video)
    output = Output(json)
    folder = newest_that_learned(run, output)
    kept = folder.read_config().eval
    count = episodes or kept.report_episodes
    # Each environment plays the same number: as many of them as divide it.
    num_envs = next(n for n in range(min(kept.num_envs, count), 0, -1) if count % n == 0)
    flags = {
        "eval.report_episodes": count,
        "eval.gate_episodes": count,
        "eval.num_envs": num_envs,
        "run.seed": seed,
    }
    settings = load(file=folder.config_path, flags=flags, sets=set_ or (), listens=False)

    from drlnet.roles.evaluate import evaluate_checkpoint, film_checkpoint

    if video is not None:  # first: an evaluation is soon repeated, a mistake in a path soon seen
        count = write_video(video, film_checkpoint(settings, folder.checkpoint_path))
        output.note(f"video: {video}, {count - 1} steps of an episode")
    if render:
        count = show_film(film_checkpoint(settings, folder.checkpoint_path))
        output.note(f"shown: {count - 1} steps of an episode")
    played = evaluate_checkpoint(settings, folder.checkpoint_path, settings.eval.report_episodes)
    announce(result_of(settings, folder, played, folder.read_result(), "evaluated"), output)
