"""Slurm: a batch script of two components, the learner beside the server, and the actors."""

from __future__ import annotations

from collections.abc import Sequence

from drlnet.launch.plan import Plan

_PORT = 7447
_MB = 1 << 20


def script(plan: Plan, slurm_args: Sequence[str] = ()) -> str:
    """The script for sbatch. A job that is queued again goes on from its learner's state.

    slurm_args: further options of sbatch, such as --partition=gpu, for both components.
    """
    server, actor = plan.role("server"), plan.role("actor")
    near = [role for role in plan if role.name != "actor"]
    more = [f"#SBATCH {word}" for word in slurm_args]
    cores, memory = (
        sum(getattr(role, name) for role in near) for name in ("cores", "memory_bytes")
    )
    gpus = sum(role.gpus for role in near)
    address = f"udp://$host:{_PORT}"
    serving = server.command(host="HOST").replace("udp://HOST:0", f'"{address}"')
    inference, learning, playing = (
        [
            role.command(server="SERVER").replace("SERVER", '"$server"')
            for role in plan
            if role.name == name
        ]
        for name in ("infer", "learner", "actor")
    )
    lines = [
        "#!/bin/bash",
        f"# A run of {plan.env}: sbatch this file.",
        f"#SBATCH --job-name=drlnet-{plan.env.replace('/', '-')}",
        "#SBATCH --output=%x-%j.log",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
        "#SBATCH --signal=B:TERM@60",
        *more,
        # The server, and beside it the learner.
        "#SBATCH --nodes=1 --ntasks=1",
        f"#SBATCH --cpus-per-task={cores}",
        f"#SBATCH --mem-per-cpu={-(-memory // _MB // cores)}M",
        *([f"#SBATCH --gpus={gpus}"] if gpus else []),
        "#SBATCH hetjob",
        *more,
        f"#SBATCH --ntasks={actor.count}",
        f"#SBATCH --cpus-per-task={actor.cores}",
        f"#SBATCH --mem-per-cpu={-(-actor.memory_bytes // _MB // actor.cores)}M",
        "set -eu",
        # The learner first, which keeps its state, and says good-bye to the server.
        "end() { kill $learner 2>/dev/null; wait $learner; kill $(jobs -p) 2>/dev/null; wait; }",
        "learner=",
        "trap end EXIT",
        "trap 'exit 143' TERM",
        f"mkdir -p {plan.folder}",
        # The address by which Slurm itself reaches the node.
        'host=$(scontrol show node "$SLURMD_NODENAME" | sed -n "s/.*NodeAddr=\\([^ ]*\\).*/\\1/p")',
        f"server={address}",
        f"{serving} --insecure &",
        f"srun --het-group=1 --kill-on-bad-exit=0 {playing[0]} --num-actors 1 &",
        *(f"{command} &" for command in inference),
        # In the background: bash hears of signals only between its commands.
        f"{learning[0]} &",
        "learner=$!",
        "wait $learner",
    ]
    return "\n".join(lines) + "\n"
