"""Ray: a placement group with a bundle for server and learner, and others for the actors.

A process of its own, the bridge, is Ray's driver: the command that watches the run never imports
Ray. In each bundle a Ray actor starts a host's agent (agent.py) and passes its lines on; the bridge
passes them to the command. When a node dies, Ray starts the Ray actor again in the bundle, which it
has moved to another node.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from drlnet.errors import ConfigError, NotInstalled, TransportError
from drlnet.launch.plan import Plan
from drlnet.launch.process import DRLNET, Process
from drlnet.launch.supervisor import Supervisor

_READY_S = 60.0
_LOOK_S = 0.5
_MAIN = ("server", "learner", "infer")


def require_installed() -> None:
    """Raises NotInstalled without Ray."""
    if find_spec("ray") is None:
        raise NotInstalled("ray is not installed", "pip install 'drlnet[ray]', on every node")


def bundles(plan: Plan, most: int = 8) -> list[dict[str, Any]]:
    """The bundles of the placement group: {"host", "takes", "CPU", "GPU"}. most: for actors.

    The actors' bundles are alike, so that each fits wherever another did.
    """
    near = [role for role in plan if role.name in _MAIN]
    actor = plan.role("actor")
    count = min(most, actor.count)
    each = -(-actor.count // count) * actor.cores
    main = {"host": "main", "takes": list(_MAIN), "CPU": sum(role.cores for role in near),
            "GPU": sum(role.gpus for role in near)}  # fmt: skip
    others = [
        {"host": f"actors-{at}", "takes": ["actor"], "CPU": each, "GPU": 0} for at in range(count)
    ]
    shards = plan.role("shard").count if plan.has("shard") else 0
    apart = [
        {"host": f"shard-{at}", "takes": ["shard"], "CPU": 1, "GPU": 0} for at in range(shards)
    ]
    return [main, *apart, *others] if near else others


def script(plan: Plan, address: str | None, most: int = 8) -> str:
    """What the bridge asks Ray for, and what is started in it."""
    lines = [
        f"# {plan.title} in the Ray cluster at {address or 'auto, else a local one'}.",
        "# Placement group, strategy SPREAD; a Ray actor in each bundle starts the commands there:",
    ]
    for bundle in bundles(plan, most):
        gpu = f", GPU: {bundle['GPU']}" if bundle["GPU"] else ""
        lines.append(f"bundle {bundle['host']}: {{CPU: {bundle['CPU']}{gpu}}}")
        if bundle["host"] == "main":
            lines += [f"  {role.command()}" for role in plan if role.name in _MAIN]
        elif bundle["takes"] == ["shard"]:
            lines.append(f"  {plan.role('shard').command()}")
        else:
            actor = plan.role("actor")
            shared = actor.count // min(most, actor.count)
            lines.append(f"  {shared} or more of: {actor.command()} --num-actors 1")
    return "\n".join(lines) + "\n"


def links(group: Supervisor, plan: Plan, address: str | None, most: int = 8) -> list[Process]:
    """Starts the bridge."""
    wanted = {"bundles": bundles(plan, most), "shares": plan.shares()}
    args = ["ray-bridge", "--wanted", json.dumps(wanted)]
    if address is not None:
        args += ["--address", address]
    return [group.start("ray", args, program=DRLNET, told=True)]


class _Host:
    """A Ray actor: starts the agent of its node, and passes lines on."""

    def __init__(self, name: str, takes: Sequence[str]) -> None:
        import ray

        own_address: Any = ray.util.get_node_ip_address  # untyped
        environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        self._agent = subprocess.Popen(
            [
                *(sys.executable, DRLNET[1], "agent", name),
                *("--address", own_address()),
                *(word for kind in takes for word in ("--takes", kind)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def hear(self) -> str:
        """The agent's next line; "" once it has ended."""
        assert self._agent.stdout is not None
        return self._agent.stdout.readline().decode()

    def tell(self, line: str) -> None:
        """A line for the agent."""
        assert self._agent.stdin is not None
        self._agent.stdin.write(f"{line}\n".encode())
        self._agent.stdin.flush()

    def end(self) -> int:
        """Ends the agent and all that it has started."""
        assert self._agent.stdin is not None
        self._agent.stdin.close()
        return self._agent.wait()


def bridge(address: str | None, wanted: Mapping[str, Any]) -> None:
    """The bridge's process: until its standard input ends. Errors go out as lines, too."""
    ray = _connect(address, wanted)
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    asked = [{k: b[k] for k in ("CPU", "GPU") if b[k]} for b in wanted["bundles"]]
    _require_room(ray, asked, wanted["shares"])
    group = placement_group(asked, strategy="SPREAD")
    try:
        ray.get(group.ready(), timeout=_READY_S)
    except ray.exceptions.GetTimeoutError:
        remove_placement_group(group)
        raise ConfigError(
            f"the Ray cluster has not had room for the plan within {_READY_S:g} s "
            f"({wanted['shares']})",
            "end what else runs there (ray status), or ask for fewer actors",
        ) from None
    hosts = {}
    for at, bundle in enumerate(wanted["bundles"]):
        remote = ray.remote(max_restarts=-1, max_concurrency=4)(_Host)
        where = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=at)
        hosts[bundle["host"]] = remote.options(
            num_cpus=bundle["CPU"], num_gpus=bundle["GPU"], scheduling_strategy=where
        ).remote(bundle["host"], bundle["takes"])
    ending = threading.Event()
    for name, host in hosts.items():
        threading.Thread(target=_pass_on, args=(ray, name, host, ending), daemon=True).start()
    try:
        for line in sys.stdin:
            try:
                ray.get(hosts[json.loads(line)["host"]].tell.remote(line.rstrip("\n")))
            except ray.exceptions.RayError as error:  # its end is told by _pass_on
                print(f"{type(error).__name__}: not told: {line}", file=sys.stderr)
    finally:
        ending.set()
        ends = [host.end.remote() for host in hosts.values()]
        ray.wait(ends, num_returns=len(ends), timeout=10.0)
        for host in hosts.values():
            ray.kill(host)
        remove_placement_group(group)
        ray.shutdown()


def _pass_on(ray: Any, name: str, host: Any, ending: threading.Event) -> None:
    """Prints an agent's lines, over the restarts of its Ray actor."""
    there = False
    while not ending.is_set():
        try:
            line = ray.get(host.hear.remote())
        except ray.exceptions.RayError as error:
            line = ""
            why = str(error).strip().splitlines()[0]
        else:
            why = "its agent has ended"
        if line:
            there = True
            print(line, end="", flush=True)
        elif there:
            there = False
            print(json.dumps({"down": name, "why": why}), flush=True)
        if not line:
            ending.wait(_LOOK_S)


def _connect(address: str | None, wanted: Mapping[str, Any]) -> Any:
    _require_answer(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(address=address or "auto", **quiet)
    except Exception as error:  # Ray raises several kinds
        if address is not None:
            raise _no_cluster(address, str(error).strip().splitlines()[0]) from error
        cores = sum(bundle["CPU"] for bundle in wanted["bundles"])
        print(f"no Ray cluster runs here; starting one with {cores} cores", file=sys.stderr)
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
    return ray


def _require_answer(address: str | None) -> None:
    """Raises TransportError where nothing listens: Ray itself would try for a minute."""
    host, colon, port = (address or "").rpartition(":")
    if not colon or not port.isdecimal():  # auto, or ray://...
        return
    try:
        socket.create_connection((host.rpartition("/")[2], int(port)), timeout=5.0).close()
    except OSError as error:
        raise _no_cluster(str(address), error.strerror or "no answer") from error


def _no_cluster(address: str, why: str) -> TransportError:
    return TransportError(
        f"no Ray cluster answers at {address}: {why}",
        "start one with `ray start --head`, or leave --address out",
    )


def _require_room(ray: Any, asked: Sequence[Mapping[str, int]], shares: str) -> None:
    has = ray.cluster_resources()
    for kind, word in (("CPU", "cores"), ("GPU", "GPUs")):
        needed = sum(bundle.get(kind, 0) for bundle in asked)
        if needed > has.get(kind, 0):
            raise ConfigError(
                f"the plan takes {needed} {word} ({shares}); the Ray cluster has "
                f"{has.get(kind, 0):g}",
                "ask for fewer actors, or add nodes: ray start --address=ADDRESS",
            )
