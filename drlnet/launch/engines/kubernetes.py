"""Kubernetes: a JobSet (jobset.sigs.k8s.io), to be applied by its user; nothing is applied here."""

from __future__ import annotations

import json
import re

from drlnet.config.keys import owner_of
from drlnet.launch.plan import Plan, Role, reachable

_PORT = 7447
_OFTEN = 1_000_000  # may actors fail: the run ends with its learner
_MB = 1 << 20


def manifest(plan: Plan, image: str) -> str:
    """The manifest, in YAML. Server and learner are one pod, each actor is another."""
    name = re.sub(r"[^a-z0-9]+", "-", f"drlnet-{plan.env}".lower()).strip("-")
    # A JobSet gives each pod a name that the others resolve: SET-JOB-INDEX-POD.SET.
    address = f"udp://{name}-main-0-0.{name}:{_PORT}"
    plan.require_no_shards("kubernetes")
    near = [role for role in plan if role.name != "actor"]
    actor = plan.role("actor")
    lines = [
        "apiVersion: jobset.x-k8s.io/v1alpha2",
        "kind: JobSet",
        "metadata:",
        f"  name: {name if near else f'{name}-more'}",
        "spec:",
        "  network: {enableDNSHostnames: true}",
    ]
    if near:
        lines += [
            "  # The run ends with its learner.",
            "  successPolicy: {operator: All, targetReplicatedJobs: [main]}",
            "  failurePolicy: {maxRestarts: 3}",
            "  # The actors find the name of the server's pod only once it is there.",
            "  startupPolicy: {startupPolicyOrder: InOrder}",
        ]
    lines.append("  replicatedJobs:")
    if near:
        lines += _job("main", 1, near, image, address, restart="Never")
    often = _OFTEN if near else None  # actors that joined a run are to end after it
    lines += _job("actors", actor.count, [actor], image, address, restart="OnFailure", often=often)
    return "\n".join(lines) + "\n"


def _job(
    name: str,
    count: int,
    roles: list[Role],
    image: str,
    address: str,
    *,
    restart: str,
    often: int | None = None,
) -> list[str]:
    """often: how often its pods may fail, in all; None: six times, as Kubernetes has it."""
    job = [
        f"  - name: {name}",
        "    replicas: 1",
        "    template:",
        "      spec:",
        f"        parallelism: {count}",
        f"        completions: {count}",
        *([] if often is None else [f"        backoffLimit: {often}"]),
        "        template:",
        "          spec:",
        f"            restartPolicy: {restart}",
        *_volumes(roles),
    ]
    # What runs for as long as the learner does is a sidecar: it ends with the pod.
    sidecars = [role for role in roles if role.name in ("server", "infer")]
    others = [role for role in roles if role not in sidecars]
    for title, part in (("initContainers", sidecars), ("containers", others)):
        if part:
            job.append(f"            {title}:")
        for role in part:
            job += _container(role, image, address, sidecar=part is sidecars)
    return job


def _volumes(roles: list[Role]) -> list[str]:
    """The key files that a pod's roles need, of the Secret drlnet-keys."""
    if not any("--key" in role.argv for role in roles):
        return []
    files = sorted({f"{owner_of(role.name)}.key" for role in roles})
    items = [{"key": file, "path": file} for file in files]
    secret = {"secretName": "drlnet-keys", "defaultMode": 0o400, "items": items}
    return [f"            volumes: [{json.dumps({'name': 'keys', 'secret': secret})}]"]


def _mounts(role: Role) -> list[str]:
    if "--key" not in role.argv:
        return []
    path = role.argv[role.argv.index("--key") + 1]
    mount = {"name": "keys", "mountPath": path, "readOnly": True}
    return [f"              volumeMounts: [{json.dumps(mount)}]"]


def _container(role: Role, image: str, address: str, *, sidecar: bool) -> list[str]:
    args = role.args(server=address)
    if role.name == "server":
        args[args.index("--listen") + 1] = f"udp://0.0.0.0:{_PORT}"
        args = reachable(args)
    if role.name == "actor":
        args += ["--num-actors", "1"]
    limits = {"memory": f"{-(-role.memory_bytes // _MB)}Mi", "cpu": str(role.cores)}
    if role.gpus:
        limits["nvidia.com/gpu"] = str(role.gpus)
    return [
        f"            - name: {role.name}",
        f"              image: {image}",
        f"              command: {json.dumps(['drlnet', *args])}",
        *(["              restartPolicy: Always"] if sidecar else []),
        *_mounts(role),
        f"              resources: {json.dumps({'requests': limits, 'limits': limits})}",
    ]
