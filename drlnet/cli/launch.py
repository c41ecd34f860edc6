"""`drlnet launch`: a run on several machines, by whatever starts processes there."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from drlnet.cli import options
from drlnet.cli.flags import settings_flags
from drlnet.cli.output import Output
from drlnet.cli.stopping import until_stopped

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from drlnet.config import Config
    from drlnet.launch.plan import Plan
    from drlnet.launch.signals import Stop
    from drlnet.launch.supervisor import Group
    from drlnet.metrics import RunFolder

Engine = Literal["local", "ssh", "ray", "slurm", "kubernetes"]
OnOption = Annotated[
    Engine, typer.Option("--on", help="what starts the processes", rich_help_panel="Where")
]
PrintOption = Annotated[
    bool,
    typer.Option(
        "--print",
        help="print the plan (on standard error) and the script or manifest that does it",
        rich_help_panel="Where",
    ),
]
HostsOption = Annotated[
    Path | None,
    typer.Option(
        "--hosts",
        metavar="FILE",
        help="ssh: a host a line, the first for server and learner; behind it, where needed, "
        "address=ADDRESS drlnet=PATH",
        rich_help_panel="Where",
    ),
]
SshOption = Annotated[
    str,
    typer.Option(
        "--ssh", metavar="COMMAND", help="ssh: with your own options", rich_help_panel="Where"
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDRESS",
        help="ray: of the cluster; without it the one that runs here, else a local one is started",
        rich_help_panel="Where",
    ),
]
SlurmOption = Annotated[
    list[str] | None,
    typer.Option(
        "--slurm-args",
        metavar="OPTION",
        help="slurm: an option of sbatch, as --partition=gpu; repeatable",
        rich_help_panel="Where",
    ),
]
JoinOption = Annotated[
    str | None,
    typer.Option(
        "--join",
        metavar="RUN",
        help="add --num-actors actors to this run, which goes on: its folder, or its server's "
        "address",
        rich_help_panel="Where",
    ),
]
ImageOption = Annotated[
    str,
    typer.Option(
        "--image", metavar="NAME", help="kubernetes: an image with drlnet", rich_help_panel="Where"
    ),
]


@settings_flags(
    "algo.name",
    "run.seed",
    "run.goal",
    "run.max_seconds",
    "run.max_env_steps",
    "run.max_learner_steps",
    "actor.num_actors",
    "actor.envs_per_actor",
    "replay.sampler",
    "server.poll",
    "server.insecure",
)
def launch(
    flags: dict[str, Any],
    env: options.EnvOrJoinArgument = None,
    join: JoinOption = None,
    on: OnOption = "local",
    show: PrintOption = False,
    hosts: HostsOption = None,
    ssh: SshOption = "ssh",
    address: AddressOption = None,
    slurm_args: SlurmOption = None,
    image: ImageOption = "drlnet",
    key: options.KeyOption = None,
    config: options.ConfigOption = None,
    set_: options.SetOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
    help_config: options.HelpConfigOption = False,
) -> None:
    """Train on several machines: one plan, started by ssh, Ray or Slurm.

    The learner is told the settings; all others learn them from the server. What
    a crash or a lost host ends is started again, the learner from its state.
    Ctrl-C ends all of it, on every host. --print writes what would be done;
    for Kubernetes that is all there is.

    [bold]Examples[/bold]

    drlnet launch CartPole-v1 --on ssh --hosts hosts.txt --key /home/me/keys

    drlnet launch ALE/Pong-v5 --on ray --num-actors 200 --key /home/me/keys

    drlnet launch CartPole-v1 --on slurm --slurm-args '-p gpu' --insecure

    drlnet launch --join runs/mine --on ray --num-actors 16

    drlnet launch CartPole-v1 --on kubernetes --print --image me/drlnet:1
    """
    from drlnet.cli.run import run_processes
    from drlnet.cli.training import note_no_end, require_trainable
    from drlnet.config import load
    from drlnet.launch.plan import require_guarded
    from drlnet.metrics import RunFolder

    layers: dict[str, Any] = {"file": config, "flags": flags, "sets": set_ or ()}
    where = _Where(on, hosts, ssh, address, slurm_args or [], image)
    if join is not None:
        join_run(join, env, where, layers, Output(json), key, show=show)
        return
    if env is None:
        raise typer.BadParameter("ENV is missing: which environment?")
    settings = load(env, **layers)
    require_trainable(settings)
    output = Output(json)
    if show:
        _show(_plan(settings, key, on), where, output)
        return
    if on == "slurm":
        require_guarded("the job's node", key is not None or settings.server.insecure)
    where.require_usable()
    with until_stopped() as stop:
        folder = RunFolder.create(settings)
        settings = folder.read_config()
        note_no_end(settings, output)
        if on == "local":
            run_processes(settings, folder, stop, output)
            return
        plan = _plan(settings, key, on)
        if on == "slurm":
            run_job(where.script(plan), folder, stop, output)
            return
        with ExitStack() as stack:
            try:
                group = stack.enter_context(
                    where.hosts(plan, folder.path, stop, output, settings.server.insecure)
                )
            except BaseException:
                folder.discard_unused()  # no host was had: there is nothing to keep
                raise
            run_processes(settings, folder, stop, output, plan=plan, within=nullcontext(group))


def join_run(
    run: str,
    env: str | None,
    where: _Where,
    layers: Mapping[str, Any],
    output: Output,
    key: Path | None,
    *,
    show: bool,
) -> None:
    """Actors for a run that goes on, until it ends. Raises ConfigError for an environment, too."""
    from drlnet.cli.which import run_named, server_of
    from drlnet.config import changes, joined
    from drlnet.errors import ConfigError, ReplayTimeout, SessionLost, TransportError
    from drlnet.launch.actors import Actors, watch_actors
    from drlnet.launch.asking import asked
    from drlnet.launch.engines import slurm
    from drlnet.launch.plan import joining_plan

    if env is not None:
        raise ConfigError(
            f"--join with ENV {env}: the run says what it plays", "leave one of them out"
        )
    folder = None if run.startswith(("udp:", "dpdk:")) else run_named(run)
    server = run if folder is None else server_of(folder)

    def over() -> bool:
        return folder is not None and folder.live() is None

    if not show:
        where.require_usable()
    with until_stopped() as stop, ExitStack() as stack:
        told = asked(server, stop, output.note)
        settings = joined(told, server, **layers)
        plan = joining_plan(settings, changes(settings, joined(told, server)), server, key)
        if show:
            _show(plan, where, output)
            return
        kept = Path(stack.enter_context(TemporaryDirectory(prefix="drlnet-")))
        count = settings.actor.num_actors
        try:
            if where.on == "slurm":
                slurm_folder = Path.cwd() if folder is None else folder.path
                job = slurm.submit(where.script(plan), slurm_folder, "join")
                slurm.follow(job, slurm_folder, stop, output.note)
            else:
                group = stack.enter_context(where.hosts(plan, kept, stop, output))
                args = plan.role("actor").args()
                output.note(f"{count} actors join the run at {server}; Ctrl-C stops them")
                actors = Actors(group, args, count, settings.run.actor_restarts)
                watch_actors(group, actors, stop, output.note, over)
        except (SessionLost, TransportError, ReplayTimeout):
            if not over():
                raise
        if over():
            output.note("the run has ended")
    output.event("ended", env=settings.env.id, actors=count)


def run_job(script: str, folder: RunFolder, stop: Stop, output: Output) -> None:
    """A job of Slurm's, to the result that it leaves in the run's folder."""
    from drlnet.cli.training import announce
    from drlnet.errors import ConfigError, RoleFailed
    from drlnet.launch.engines import slurm
    from drlnet.metrics import RunResult

    if not folder.learner_path.is_file():  # else its learner goes on
        folder.facts_path.unlink(missing_ok=True)  # the run begins with it, not with the queue
    try:
        job = slurm.submit(script, folder.path)
    except (ConfigError, OSError):  # there is no job, whose working directory the folder would be
        folder.discard_unused()
        raise
    slurm.follow(job, folder.path, stop, output.note)
    result = folder.read_result()
    if result:
        announce(RunResult.of(result), output)
    elif not stop.is_set():
        raise RoleFailed("the job ended without a result", f"its log is in {folder.path}")
    elif not folder.facts_path.is_file():
        folder.discard_unused()  # the job was cancelled while it waited


def print_local(settings: Config, output: Output, key: Path | None) -> None:
    """Prints the plan of a run on this machine, and the script that does it."""
    _show(_plan(settings, key, "local"), _Where("local"), output)


def _show(plan: Plan, where: _Where, output: Output) -> None:
    script = where.script(plan)
    output.event("plan", **asdict(plan), script=script)
    if not output.as_json:
        print(plan.table(), file=sys.stderr)  # what stands on standard output can be submitted
        print(script, end="")


def _plan(settings: Config, key: Path | None, on: Engine) -> Plan:
    from dataclasses import replace

    from drlnet.algos import make_algorithm
    from drlnet.envs import find_spaces
    from drlnet.errors import ConfigError
    from drlnet.launch.plan import plan_of, with_tables
    from drlnet.metrics import RunFolder

    if on == "local" and settings.server.transport != "udp":
        raise ConfigError(
            f"--print with server.transport = {settings.server.transport!r}: a script uses udp",
            "leave one of them out",
        )
    if settings.run.folder is None:  # nothing is started: it is named, not made
        run = replace(settings.run, folder=str(RunFolder.name(settings)))
        settings = replace(settings, run=run)
    plan = plan_of(settings, key=key)
    tables = make_algorithm(settings, find_spaces(settings.env)).tables()
    return with_tables(plan, settings, tables)


class _Where:
    """The engine that was chosen, with its options."""

    def __init__(
        self,
        on: Engine,
        hosts: Path | None = None,
        ssh: str = "ssh",
        address: str | None = None,
        slurm_args: Sequence[str] = (),
        image: str = "drlnet",
    ) -> None:
        from drlnet.errors import ConfigError

        self.on, self._ssh, self._address, self._image = on, ssh, address, image
        self._slurm_args, self._file = slurm_args, hosts
        for option, engine, given in (
            ("--hosts", "ssh", hosts is not None),
            ("--ssh", "ssh", ssh != "ssh"),
            ("--address", "ray", address is not None),
            ("--slurm-args", "slurm", bool(slurm_args)),
            ("--image", "kubernetes", image != "drlnet"),
        ):
            if given and on != engine:
                raise ConfigError(
                    f"{option} with --on {on}: it is an option of --on {engine}",
                    f"give --on {engine}, or leave {option} out",
                )
        if on == "ssh" and hosts is None:
            raise ConfigError("--on ssh without --hosts: on which?", "name a file: --hosts FILE")

    def script(self, plan: Plan) -> str:
        """What would do the plan by hand."""
        from drlnet.launch.engines import kubernetes, ray, shell, slurm, ssh

        if self.on == "ssh":
            assert self._file is not None
            return ssh.script(plan, ssh.read_hosts(self._file), self._ssh)
        if self.on == "ray":
            return ray.script(plan, self._address)
        if self.on == "slurm":
            return slurm.script(plan, self._slurm_args)
        if self.on == "kubernetes":
            return kubernetes.manifest(plan, self._image)
        return shell.script(plan)

    def require_usable(self) -> None:
        """Raises what would keep the engine from starting anything, before a folder is made."""
        from drlnet.errors import ConfigError
        from drlnet.launch.engines import ray, slurm, ssh

        if self.on == "ray":
            ray.require_installed()
        elif self.on == "ssh":
            assert self._file is not None
            ssh.read_hosts(self._file)
            ssh.require_program(self._ssh)
        elif self.on == "slurm":
            slurm.require_installed()
        elif self.on == "kubernetes":
            raise ConfigError(
                "--on kubernetes starts nothing by itself",
                "write the file with --print > FILE, and kubectl apply -f FILE",
            )

    def hosts(
        self, plan: Plan, folder: Path, stop: Stop, output: Output, insecure: bool = False
    ) -> AbstractContextManager[Group]:
        """The engine's processes: of this machine, or its hosts' with logs in that folder."""
        from drlnet.launch.engines import ray, ssh
        from drlnet.launch.hosts import Hosts
        from drlnet.launch.supervisor import Supervisor

        if self.on == "local":
            return Supervisor(stop, less_memory="lower --num-actors", aloud=True)
        if self.on == "ray":
            return Hosts(
                stop,
                lambda group: ray.links(group, plan, self._address),
                [bundle["host"] for bundle in ray.bundles(plan)],
                folder,
                output.note,
                insecure=insecure,
            )
        assert self._file is not None
        found = ssh.read_hosts(self._file)
        return Hosts(
            stop,
            lambda group: ssh.links(group, found, self._ssh),
            [host.name for host in found],
            folder,
            output.note,
            ssh.refused,
            plan=plan,
            insecure=insecure,
        )
