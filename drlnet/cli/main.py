"""The `drlnet` command: collects the commands and turns errors into words and exit codes."""

from __future__ import annotations

import io
import json as json_module
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from drlnet import __version__
from drlnet.cli import (
    actor,
    agent,
    bench,
    doctor,
    evaluate,
    help,
    infer,
    keygen,
    launch,
    learn,
    ls,
    plot,
    run,
    serve,
    state,
    stats,
    sweep,
    watch,
)
from drlnet.cli.options import JsonOption
from drlnet.cli.output import Output, drop, json_file, keep_for_json, report_and_exit
from drlnet.errors import Told, user_place

app = typer.Typer(
    name="drlnet",
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"drlnet {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="and exit"),
    ] = False,
) -> None:
    """Deep reinforcement learning with many actors, one learner, and the replay in the network.

    [bold]Start here[/bold]

    drlnet run CartPole-v1            [dim]# all of it, on this machine[/dim]

    [bold]The same by hand, in four shells (or on four machines)[/bold]

    drlnet serve                      [dim]# the replay server[/dim]

    drlnet learn CartPole-v1          [dim]# the learner[/dim]

    drlnet actor CartPole-v1          [dim]# actors; more may join and leave[/dim]

    drlnet stats                      [dim]# throughput and latency, live[/dim]

    [bold]The documentation[/bold]

    drlnet help                       [dim]# its topics[/dim]
    """
    if context.invoked_subcommand is None:  # a question, not an error: exit code 0
        print(context.get_help())


app.command("run")(run.run)
app.command("serve")(serve.serve)
app.command("keygen")(keygen.keygen)
app.command("actor")(actor.actor)
app.command("infer")(infer.infer)
app.command("learn")(learn.learn)
app.command("launch")(launch.launch)
app.command("agent", hidden=True)(agent.agent)
app.command("ray-bridge", hidden=True)(agent.ray_bridge)
app.add_typer(state.commands, name="state")
app.command("stats")(stats.stats)
app.command("watch")(watch.watch)
app.command("ls")(ls.list_runs)
app.command("eval")(evaluate.evaluate)
app.command("sweep")(sweep.sweep)
app.command("plot")(plot.plot)
app.command("doctor")(doctor.doctor)
app.command("doctor-trial", hidden=True)(doctor.doctor_trial)
app.add_typer(bench.commands, name="bench")
app.command("help")(help.show_help)


@app.command("version")
def print_version(json: JsonOption = False) -> None:
    """Print the version."""
    output = Output(json)
    output.note(f"drlnet {__version__}")
    output.result(json_module.dumps({"version": __version__}))


def _open_missing_streams() -> None:
    # Python has None for one that was closed before the start (`>&-`, some service managers), and
    # the next file opened would get its descriptor.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


def main() -> None:
    """Runs the command line; every error of the program ends here."""
    # Looked for by hand: an error may come before the options are parsed.
    as_json, debug = "--json" in sys.argv, "--debug" in sys.argv
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without these signs shows others
    if as_json and not {"--help", "--help-config"} & {*sys.argv}:  # which are the output
        keep_for_json()
    try:
        app(prog_name="drlnet")
    except SystemExit as ending:
        # The reader has closed the pipe: `drlnet ... | head`. The printing code turns that into an
        # exit with the code of an internal error.
        if isinstance(ending.__context__, BrokenPipeError):
            drop(sys.stdout, json_file())
            sys.exit(128 + signal.SIGPIPE)
        # typer's own end what has a code; another may be a sys.exit() of a user's code.
        if not hasattr(ending.__context__, "exit_code") and user_place(ending):
            report_and_exit(ending, as_json=as_json, debug=debug)
        cause = getattr(ending.__context__, "format_message", None)  # of a wrong command line
        if as_json and cause is not None:
            told = Told("UsageError", cause(), "see --help", int(ending.code or 0), "")
            print(json_module.dumps({"error": told.said()}), file=json_file())
        try:
            json_file().flush()
            sys.stdout.flush()  # here and not at the interpreter's end, which makes it code 120
            if Output.lost is not None:
                raise Output.lost
        except BrokenPipeError:
            drop(sys.stdout, json_file())
            sys.exit(128 + signal.SIGPIPE)
        except OSError as error:
            report_and_exit(error, as_json=as_json, debug=debug)
        raise
    except Exception as error:
        report_and_exit(error, as_json=as_json, debug=debug)
