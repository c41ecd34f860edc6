"""This machine: the plan as a shell script."""

from __future__ import annotations

from drlnet.launch.plan import HOST, Plan

ADDRESS = "udp://127.0.0.1:7447"
# The script ends what it has started: the learner first, which keeps its state and says good-bye to
# the server. A trap for each signal, too: sh does not run the one of EXIT when a signal ends it.
# After the others have started, since a signal to one that sh has forked with a trap set is lost
# until it is drlnet.
ENDING = (
    "end() {",
    "  trap '' HUP INT TERM",
    "  set +e",
    "  kill $learner && wait $learner",
    "  kill $pids",
    "  wait",
    "} 2>/dev/null",
    "trap end EXIT",
    "trap 'exit 129' HUP",
    "trap 'exit 130' INT",
    "trap 'exit 143' TERM",
)
# The learner is in the background, too: sh hears of signals only between its commands.
AWAIT_LEARNER = ("learner=$!", "wait $learner")


def script(plan: Plan) -> str:
    """A script that does by hand what `drlnet run` does, without its view and its restarts."""
    if not plan.has("server"):
        return f"#!/bin/sh\nexec {actors(plan)}\n"
    lines = [
        "#!/bin/sh",
        f"# {plan.title} on this machine. It ends with its learner.",
        "set -eu",
        "pids= learner=",
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
    lines += [*ENDING, f"{learner.replace(ADDRESS, '$server')} &", *AWAIT_LEARNER]
    return "\n".join(lines) + "\n"


def actors(plan: Plan) -> str:
    """The command for all actors of a plan of actors alone."""
    actor = plan.role("actor")
    return f"{actor.command()} --num-actors {actor.count}"
