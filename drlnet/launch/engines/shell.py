"""This machine: the plan as a shell script."""

from __future__ import annotations

from drlnet.launch.plan import HOST, Plan

ADDRESS = "udp://127.0.0.1:7447"


def script(plan: Plan) -> str:
    """A script that does by hand what `drlnet run` does, without its view and its restarts."""
    if not plan.has("server"):
        return f"#!/bin/sh\nexec {actors(plan)}\n"
    lines = [
        "#!/bin/sh",
        f"# {plan.title} on this machine. It ends with its learner.",
        "set -eu",
        "pids=",
        "trap 'kill $pids 2>/dev/null || :; wait' EXIT",
        f"server={ADDRESS}",
    ]
    for role in plan:
        if role.name == "learner":
            continue
        count = f" --num-actors {role.count}" if role.name == "actor" else ""
        at = "udp://127.0.0.1:0" if role.name == "shard" else ADDRESS
        command = role.command(server=ADDRESS).replace(f"'udp://{HOST}:0'", at)
        command = command.replace(ADDRESS, "$server")
        for _ in range(role.count if role.name == "shard" else 1):
            lines += [f"{command}{count} &", 'pids="$pids $!"']
    learner = plan.role("learner").command(server=ADDRESS)
    lines.append(learner.replace(ADDRESS, "$server"))
    return "\n".join(lines) + "\n"


def actors(plan: Plan) -> str:
    """The command for all actors of a plan of actors alone."""
    actor = plan.role("actor")
    return f"{actor.command()} --num-actors {actor.count}"
