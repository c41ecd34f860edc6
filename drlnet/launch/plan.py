"""What a run is made of: which processes, how many, what each takes, and how it is started."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drlnet.config import Config, changes, sets_of
from drlnet.config.toml import literal
from drlnet.config.transports import LISTEN
from drlnet.errors import ConfigError, Insecure
from drlnet.metrics import RunFolder

# Words of a command that are known only when it is started.
SERVER, HOST = "{server}", "{host}"  # the server's address; that of the host it is started on
_MB = 1 << 20
# What each engine says to the servers that it starts.
_OWN_OF_SERVERS = ("server.transport", "server.listen", "server.insecure")
# What a process takes at rest, rounded up: with torch, and without.
_TORCH_BYTES, _PLAIN_BYTES = 512 * _MB, 128 * _MB
_INDEX_BYTES = 64  # of a row at a server that keeps none: its links, its place in the sampler


def in_url(host: str) -> str:
    """A host's address as it stands before a port: an IPv6 one in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


@dataclass(frozen=True)
class Role:
    """`count` processes of one kind. cores, gpus, memory_bytes: what each takes.

    needed: whether the run ends with it; one that is not needed may be missing for a while.
    """

    name: str
    count: int
    cores: int
    gpus: int
    memory_bytes: int
    needed: bool
    argv: tuple[str, ...]  # of `drlnet`

    def args(self, *, server: str = SERVER, host: str = HOST) -> list[str]:
        """The arguments of `drlnet`, with what is known by now."""
        return [word.replace(SERVER, server).replace(HOST, in_url(host)) for word in self.argv]

    def command(self, **known: str) -> str:
        """The command as a shell takes it."""
        return shlex.join(["drlnet", *self.args(**known)])


@dataclass(frozen=True)
class Plan:
    """A run's roles, in the order in which they are started."""

    env: str
    folder: str  # the run's
    roles: tuple[Role, ...]

    def __iter__(self) -> Iterator[Role]:
        return iter(self.roles)

    def role(self, name: str) -> Role:
        """The role of that name, which the plan has."""
        return next(role for role in self.roles if role.name == name)

    def has(self, name: str) -> bool:
        """Whether the run has such a role."""
        return any(role.name == name for role in self.roles)

    @property
    def title(self) -> str:
        """What it is, for the head of a script."""
        return f"{'A run' if self.has('learner') else 'Actors that join a run'} of {self.env}"

    def cores(self, *names: str) -> int:
        """Counts those of the roles of these names; of all without any."""
        return sum(r.count * r.cores for r in self.roles if not names or r.name in names)

    def require_no_shards(self, engine: str) -> None:
        """Raises ConfigError where some are to be elsewhere, and that engine starts none."""
        if self.has("shard"):
            raise ConfigError(
                f"server.elsewhere with --on {engine}: its server is in one process",
                "use server.shards, or start the others by hand: drlnet serve --join ADDRESS",
            )

    def shares(self, *names: str) -> str:
        """The cores of the roles of these names, of all without any, in words."""
        return ", ".join(
            f"{role.name} {role.count * role.cores}"
            for role in self.roles
            if role.cores and (not names or role.name in names)
        )

    def table(self) -> str:
        """The roles, one a line, in columns: all but their commands, which a script has."""
        heads = ("role", "count", "cores", "GPUs", "memory", "needed")
        rows = [heads] + [
            (
                *(role.name, str(role.count), str(role.cores), str(role.gpus)),
                *(f"{-(-role.memory_bytes // _MB)} MB", "yes" if role.needed else "no"),
            )
            for role in self.roles
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        pad = [str.ljust, str.rjust, str.rjust, str.rjust, str.rjust, str.ljust]
        lines = (
            "  ".join(put(cell, width) for put, cell, width in zip(pad, row, widths, strict=True))
            for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)


def reachable(args: Sequence[str]) -> list[str]:
    """A server's arguments where other machines reach it: it lets in those with a key, or all."""
    return [*args] if "--key" in args else [*args, "--insecure"]


def require_guarded(where: str, guarded: bool) -> None:
    """Raises Insecure for a server that other machines reach, unless it is guarded: by keys, or by
    the user's word that the network is."""
    if not guarded:
        raise Insecure(
            f"a server on {where} can be reached from other machines, by anyone",
            "add --key DIR (drlnet keygen DIR makes it), or --insecure on a network that you trust",
        )


def _words(sets: Mapping[str, Any], *without: str) -> list[str]:
    """Those settings as --set takes them."""
    return [
        word
        for key, value in sets.items()
        if key not in without
        for word in ("--set", f"{key}={'none' if value is None else literal(value, key)}")
    ]


def plan_of(config: Config, *, key: Path | None = None) -> Plan:
    """The plan of a run whose learner alone is told the settings: the others ask the server.

    key: where each role finds its key file.
    """
    words = _words(sets_of(config), "env.id", "run.folder", "run.resume")
    folder = str(config.run.folder)
    learner = [
        *("learn", config.env.id, "--server", SERVER, "--again", "--json", "--no-view"),
        *(*words, "--set", f"run.folder={literal(folder, 'run.folder')}"),
    ]
    own = replace(Config(), server=config.server)  # a server reads no recipe
    serving = _words(changes(own, Config()), *_OWN_OF_SERVERS)
    server = ["serve", "--listen", f"udp://{HOST}:0", "--json", *serving, *_kept(config)]
    shard = ["serve", "--join", SERVER, "--listen", f"udp://{HOST}:0", "--json"]
    return _plan(config, server, shard, learner, ["--server", SERVER, "--json"], key)


def joining_plan(
    config: Config, given: Mapping[str, Any], server: str, key: Path | None = None
) -> Plan:
    """The plan of actor.num_actors actors that join the run at that server.

    given: what they are told of their own, by key. folder: "", the run's is not theirs.
    """
    own = _words(given, "actor.num_actors")
    plan = _plan(config, [], [], [], ["--server", server, "--json", *own], key)
    return Plan(config.env.id, "", (plan.role("actor"),))


def local_plan(config: Config) -> Plan:
    """The plan of a run on this machine, whose processes read the config in the run's folder."""
    folder = Path(str(config.run.folder))
    transport = config.server.transport
    own = ["--config", str(folder / "config.toml"), "--json"]
    server = ["serve", *own, "--listen", LISTEN.get(transport, transport), "--run", str(folder)]
    server += _kept(config)
    env = config.env.id
    learner = ["learn", env, "--server", SERVER, *own, "--again", "--no-view"]
    shard = ["serve", "--join", SERVER, "--listen", "udp://127.0.0.1:0", "--json"]
    return _plan(config, server, shard, learner, [env, "--server", SERVER, *own])


def _kept(config: Config) -> list[str]:
    """What a server is told of where it keeps the run's replay."""
    folder = Path(str(config.run.folder))
    return ["--state", str(RunFolder(folder).replay_path)] if config.run.keep_replay else []


def _plan(
    config: Config,
    server: Sequence[str],
    shard: Sequence[str],
    learner: Sequence[str],
    joining: Sequence[str],
    key: Path | None = None,
) -> Plan:
    keyed = [] if key is None else ["--key", str(key)]
    server, shard = [*server, *keyed], [*shard, *keyed]
    learner, joining = [*learner, *keyed], [*joining, *keyed]
    ranks, threads = config.learner.processes, config.learner.torch_threads
    gpus = ranks * config.learner.device.startswith("cuda")
    cores, memory = ranks * threads + 1, (ranks + 1) * _TORCH_BYTES
    elsewhere = config.server.elsewhere
    roles = [
        Role("server", 1, config.server.shards, 0, _PLAIN_BYTES, True, tuple(server)),
        *([Role("shard", elsewhere, 1, 0, _PLAIN_BYTES, False, tuple(shard))] if elsewhere else []),
        # With the other ranks and the evaluator, which are forked from it.
        Role("learner", 1, cores, gpus, memory, True, tuple(learner)),
    ]
    if config.policy.where == "central":
        infer, gpus = ("infer", *joining), int(config.actor.device.startswith("cuda"))
        roles.append(Role("infer", 1, config.actor.torch_threads, gpus, _TORCH_BYTES, False, infer))
    envs = config.actor.envs_per_actor if config.env.vectorization == "async" else 0
    cores = max(config.actor.torch_threads, envs)
    actor = Role(
        "actor", config.actor.num_actors, cores, 0, _TORCH_BYTES, False, ("actor", *joining)
    )
    return Plan(config.env.id, str(config.run.folder), (*roles, actor))


def with_tables(plan: Plan, config: Config, tables: Mapping[str, Any]) -> Plan:
    """The plan with the memory of the tables: name -> algos.TableSettings.

    Rows are at the server, unless it has the index alone, and in each mirror of them.
    """
    rows = sum(
        table.capacity * sum(column.row_bytes for column in table.columns.values())
        for table in tables.values()
    )
    serving = ("server", "shard")  # a core for each shard
    shards, ranks = plan.cores(*serving), config.learner.processes
    index = _INDEX_BYTES * sum(table.capacity for table in tables.values())
    share = (index if config.server.index_only else int(rows)) // shards
    mirrored = 0
    if config.replay.rows != "server":  # with as many shards as ranks each has its own one's rows
        mirrored = int(rows) * (1 if shards == ranks else ranks)
    more = {role.name: share * role.cores for role in plan if role.name in serving}
    more["learner"] = mirrored
    roles = (replace(r, memory_bytes=r.memory_bytes + more.get(r.name, 0)) for r in plan)
    return replace(plan, roles=tuple(roles))
