"""Slurm: a batch script of two components, the learner beside the server, and the actors.

It is submitted and followed until the job ends; Slurm starts, queues again and ends it.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from drlnet.errors import ConfigError, NotInstalled, RoleFailed
from drlnet.launch.plan import HOST, SERVER, Plan, Role, reachable
from drlnet.launch.signals import Stop

_PORT = "$((20000 + SLURM_JOB_ID % 10000))"  # jobs may share a node
_MB = 1 << 20
_LOOK_S = 1.0
_ASK_S = 60.0  # that Slurm's commands may take
_BEAR_S = 600.0  # without an answer of squeue


def script(plan: Plan, slurm_args: Sequence[str] = ()) -> str:
    """The script for sbatch. A job that is queued again goes on from its learner's state.

    slurm_args: further options of sbatch, such as --partition=gpu, for both components.
    """
    if not plan.has("server"):
        return _actors_alone(plan, slurm_args)
    plan.require_no_shards("slurm")
    server, actor = plan.role("server"), plan.role("actor")
    near = [role for role in plan if role.name != "actor"]
    more = [f"#SBATCH {word}" for word in slurm_args]
    cores, memory = (
        sum(getattr(role, name) for role in near) for name in ("cores", "memory_bytes")
    )
    gpus = sum(role.gpus for role in near)
    address = f"udp://$host:{_PORT}"
    serving = _line(reachable(server.argv), f"udp://{HOST}:0", address)
    inference, learning, playing = (
        [_line(role.argv, SERVER, "$server") for role in plan if role.name == name]
        for name in ("infer", "learner", "actor")
    )
    lines = [
        *_head(plan),
        "#SBATCH --signal=B:TERM@60",
        *more,
        # The server, and beside it the learner.
        "#SBATCH --nodes=1 --ntasks=1",
        f"#SBATCH --cpus-per-task={cores}",
        f"#SBATCH --mem-per-cpu={-(-memory // _MB // cores)}M",
        *([f"#SBATCH --gpus={gpus}"] if gpus else []),
        "#SBATCH hetjob",
        *more,
        *_each(actor),
        "set -eu",
        # The learner first, which keeps its state, and says good-bye to the server. The kill fails
        # where it has ended by itself: the rest is to be done all the same.
        "end() { set +e; kill $learner; wait $learner; kill $(jobs -p); wait; } 2>/dev/null",
        "learner=",
        "trap end EXIT",
        "trap 'exit 143' TERM",
        f"mkdir -p {shlex.quote(plan.folder)}",
        # The address by which Slurm itself reaches the node.
        'host=$(scontrol show node "$SLURMD_NODENAME" | sed -n "s/.*NodeAddr=\\([^ ]*\\).*/\\1/p")',
        f"server={address}",
        f"{serving} &",
        f"srun --het-group=1 --kill-on-bad-exit=0 {playing[0]} --num-actors 1 &",
        *(f"{command} &" for command in inference),
        # In the background: bash hears of signals only between its commands.
        f"{learning[0]} &",
        "learner=$!",
        "wait $learner",
    ]
    return "\n".join(lines) + "\n"


def _line(args: Sequence[str], unknown: str, variable: str) -> str:
    """The command of those arguments, with what the shell will know for the one that is not."""
    words = (f'"{variable}"' if word == unknown else shlex.quote(word) for word in args)
    return " ".join(["drlnet", *words])


def _actors_alone(plan: Plan, slurm_args: Sequence[str]) -> str:
    actor = plan.role("actor")
    more = [f"#SBATCH {word}" for word in slurm_args]
    playing = f"exec srun --kill-on-bad-exit=0 {actor.command()} --num-actors 1"
    return "\n".join([*_head(plan), *more, *_each(actor), playing]) + "\n"


def _head(plan: Plan) -> list[str]:
    return [
        "#!/bin/bash",
        f"# {plan.title}: sbatch this file.",
        f"#SBATCH --job-name=drlnet-{plan.env.replace('/', '-')}",
        "#SBATCH --output=%x-%j.log",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
    ]


def _each(actor: Role) -> list[str]:
    """A task for each actor."""
    return [
        f"#SBATCH --ntasks={actor.count}",
        f"#SBATCH --cpus-per-task={actor.cores}",
        f"#SBATCH --mem-per-cpu={-(-actor.memory_bytes // _MB // actor.cores)}M",
    ]


def require_installed() -> None:
    """Raises NotInstalled without Slurm's commands."""
    if shutil.which("sbatch") is None:
        raise NotInstalled(
            "sbatch is not installed: jobs are submitted elsewhere",
            "log in where it is (Debian's package: slurm-client), or write the script with --print",
        )


def submit(text: str, folder: Path, name: str = "run") -> str:
    """Submits the script, kept as NAME.sbatch in that folder; returns the job's number.

    Raises ConfigError for what sbatch refuses, in its words.
    """
    script = folder / f"{name}.sbatch"
    script.write_text(text, encoding="utf-8")
    sent = _ask("sbatch", "--parsable", str(script), within=folder)
    if sent.returncode != 0:
        words = (sent.stderr.strip() or "sbatch failed").splitlines()[-1]
        raise ConfigError(
            f"Slurm takes no such job: {words}",
            "see that `sinfo` lists the partition you mean; --slurm-args passes options",
        )
    return sent.stdout.strip().partition(";")[0]


def follow(job: str, folder: Path, stop: Stop, note: Callable[[str], None]) -> None:
    """Follows a job of that folder to its end. When stopped, cancels the job.

    Its log is in the folder, too, and what comes into it is noted. Raises RoleFailed where squeue
    does not answer for minutes: the job goes on.
    """
    note(f"job {job}; what it says comes here and into {folder}; Ctrl-C cancels it")
    read, lives, answered_s, told = 0, True, time.monotonic(), False
    try:
        while not stop.is_set():
            try:
                lives = bool(_states(job))
                answered_s, told = time.monotonic(), False
            except RoleFailed as error:
                if time.monotonic() - answered_s > _BEAR_S:
                    lives = False  # as far as we know: it is not ours to cancel
                    raise
                if not told:
                    note(f"{error.cause}; the job goes on, and squeue is asked again")
                told = True
            for log in folder.glob(f"*-{job}.log"):
                data = log.read_bytes()
                for line in data[read:].decode("utf-8", "replace").splitlines():
                    note(line)
                read = len(data)
            if not lives:
                return
            stop.wait(_LOOK_S)
    finally:
        if lives:
            _cancel(job)


def _cancel(job: str) -> None:
    asked = _ask("scancel", job)
    if asked.returncode != 0 and _states(job):
        raise RoleFailed(
            f"job {job} is not cancelled: {asked.stderr.strip()}", f"cancel it: scancel {job}"
        )


def _states(job: str) -> list[str]:
    """The states of its components; none once it has left the queue."""
    asked = _ask("squeue", "--noheader", "--jobs", job, "--format", "%T")
    if asked.returncode != 0 and "Invalid job id" not in asked.stderr:
        raise RoleFailed(
            f"squeue does not answer: {asked.stderr.strip()}", f"the job goes on: scancel {job}"
        )
    return asked.stdout.split()


def _ask(*command: str, within: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=within,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
            start_new_session=True,  # Ctrl-C is for us
        )
    except subprocess.TimeoutExpired as error:
        raise RoleFailed(
            f"{command[0]} has not answered within {_ASK_S:g} s",
            "see that Slurm's controller runs: scontrol ping; squeue --me lists jobs",
        ) from error
