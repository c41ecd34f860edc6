"""Roles on several hosts, watched as those of one machine are: by their agents (see agent.py)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drlnet import native
from drlnet.config.keys import key_text, owner_of
from drlnet.errors import ConfigError, DrlnetError, RoleFailed
from drlnet.launch.plan import HOST, Plan, in_url, reachable, require_guarded
from drlnet.launch.process import Process, error_told
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Event, Said, Supervisor, Waiting

UP_DEADLINE_S = 60.0
_AGAIN_S, _AGAIN_MAX_S = 1.0, 60.0  # before a connection that has ended is tried again
_END_S = 25.0  # more than an agent gives its roles
_MAIN = ("server", "learner", "infer")
_KEY_OWNERS = ("learner", "actor", "server")  # a rotation replaces the server's first


@dataclass(eq=False)
class Far:
    """A role on another host."""

    number: int
    name: str
    args: list[str]
    host: Host | None = None  # None: it waits for one that takes it
    stopping: bool = False
    lost: bool = False
    returncode: int | None = None
    ending: str = "has not ended"
    last_object: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)

    def failure(self) -> DrlnetError:
        """Its end as an error."""
        if self.error:
            return error_told(self.error, "", None)
        return RoleFailed(f"{self.name} {self.ending}", "see that its host stays")


@dataclass(eq=False)
class Host:
    """A host whose agent is there. takes: kinds of roles; (): any."""

    name: str
    link: Process
    address: str
    cores: int
    interfaces: dict[str, str]
    takes: tuple[str, ...]
    roles: dict[int, Far] = field(default_factory=dict)

    @property
    def load(self) -> float:
        """Roles for each core."""
        return len(self.roles) / max(1, self.cores)

    @property
    def is_loopback(self) -> bool:
        """Whether no other machine reaches it by its address, which may be a name.

        Raises TransportError for a name that this machine does not know.
        """
        return native.is_loopback(f"udp://{in_url(self.address)}:0")


class Hosts(Waiting):
    """A group (see supervisor.Group) whose roles run on several hosts.

    links: starts the connections, each to one agent or more. expected: the hosts' names, in the
    order in which they are to take the server and the learner. A host that is lost ends its roles;
    those that are started again go to hosts that remain, or wait for one that comes. log_folder:
    what roles say for people goes there. explain: the end of a connection as an error. plan: where
    it takes more cores than the hosts have, which share them out to any number of roles, the user
    is told. insecure: servers may listen without keys where other machines reach them. Leaving it
    ends everything on every host.
    Threading: main thread only.
    """

    def __init__(
        self,
        stop: Stop,
        links: Callable[[Supervisor], list[Process]],
        expected: Sequence[str],
        log_folder: Path,
        note: Callable[[str], None],
        explain: Callable[[Process], DrlnetError] = Process.failure,
        *,
        plan: Plan | None = None,
        insecure: bool = False,
    ) -> None:
        self._plan, self._insecure = plan, insecure
        self._explain = explain
        self._stop, self._links, self._expected, self._note = stop, links, expected, note
        self._log_folder = log_folder
        self._group = Supervisor(stop, aloud=True)
        self._open: list[Process] = []
        self._hosts: dict[str, Host] = {}
        self._roles: dict[int, Far] = {}
        self._keys: dict[str, str] = {}  # by owner: what the server of this group began with
        self._heard: list[Event] = []
        self._again: list[tuple[float, Process]] = []  # when, which connection
        self._tries: dict[str, int] = {}  # by its name, since its host was there

    def __enter__(self) -> Hosts:
        self._group.__enter__()
        try:
            self._open = self._links(self._group)
            self._await_hosts()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self.end([*self._roles.values()])
            for link in self._open:
                link.hang_up()
            deadline = time.monotonic() + _END_S
            self._group.deaf()
            while any(link.returncode is None for link in self._open):
                if time.monotonic() > deadline:
                    break
                self._group.wait(0.1)
        finally:
            self._group.__exit__(*raised)

    def _await_hosts(self) -> None:
        deadline = time.monotonic() + UP_DEADLINE_S
        while len(self._hosts) < len(self._expected) and not self._stop.is_set():
            left = deadline - time.monotonic()
            if left <= 0:
                raise RoleFailed(
                    f"{len(self._hosts)} of {len(self._expected)} hosts answered "
                    f"in {UP_DEADLINE_S:g} s",
                    "see that drlnet is installed on each, of this version",
                )
            for event in self._group.wait(left):
                if isinstance(event, Ended) and isinstance(event.process, Process):
                    raise self._explain(event.process)
                self._take(event)
        if self._plan is not None and len(self._hosts) == len(self._expected):
            self._tell_shortage(self._plan)

    def _tell_shortage(self, plan: Plan) -> None:
        first = self._hosts[self._expected[0]]
        for where, cores, names in (
            (f"{first.name}, the first host, has", first.cores, _MAIN),
            ("all hosts have", sum(host.cores for host in self._hosts.values()), ()),
        ):
            if plan.cores(*names) > cores:
                self._note(
                    f"the plan takes {plan.cores(*names)} cores ({plan.shares(*names)}); {where} "
                    f"{cores}, which they share: add hosts, or ask for less"
                )

    def start(self, name: str, args: Sequence[str]) -> Far:
        """Starts `drlnet ARGS` on the host that has most room for it, or waits for one."""
        role = Far(len(self._roles), name, list(args))
        if name == "server" and "--key" in args and not self._keys:
            # It has its key in its host's memory, and sees none that replace it: each role that
            # comes to it, however late, has to have the keys of the same time.
            path = args[args.index("--key") + 1]
            self._keys = {owner: key_text(path, owner) for owner in _KEY_OWNERS}
        self._roles[role.number] = role
        self._place(role)
        return role

    def _place(self, role: Far) -> None:
        kind = role.name.partition("-")[0]
        there = [self._hosts[name] for name in self._expected if name in self._hosts]
        able = [one for one in there if not one.takes or kind in one.takes]
        if not able:
            self._note(f"{role.name} waits for a host")
            return
        # The server, and what is close to it, on the first; actors where most cores are free.
        # Shards go to others than the server's where there are any.
        order = able[1:] or able if kind == "shard" else able
        host = able[0] if kind in _MAIN else min(order, key=lambda one: one.load)
        args = [word.replace(HOST, in_url(host.address)) for word in role.args]
        if kind in ("server", "shard"):
            self._require_reachable(host)
            if not host.is_loopback:
                where, keyed = f"{host.name}, at {host.address},", "--key" in args
                require_guarded(where, keyed or self._insecure)
                args = reachable(args)
        told = {"start": role.number, "name": role.name, "argv": args, "host": host.name}
        if "--key" in args:  # the host may have no such file
            owner, path = owner_of(kind), args[args.index("--key") + 1]
            told["key"] = self._keys.get(owner) or key_text(path, owner)
        role.host = host
        host.roles[role.number] = role
        host.link.tell(json.dumps(told))

    def _require_reachable(self, host: Host) -> None:
        others = [one.name for one in self._hosts.values() if not one.is_loopback]
        if not (host.is_loopback and others):
            return
        own = ", ".join(f"{name} {address}" for name, address in host.interfaces.items())
        raise ConfigError(
            f"the server would listen at {host.address} of {host.name}, which {others[0]} cannot "
            f"reach; its interfaces: {own}",
            "say where: address=ADDRESS behind its name in the hosts file",
        )

    def wait(self, timeout: float) -> list[Event]:
        """What happens within `timeout` seconds; may be nothing before that."""
        if self._heard:
            heard, self._heard = self._heard, []
            return heard
        due_s = [max(0.0, when - time.monotonic()) for when, _ in self._again]
        told = self._group.wait(min([timeout, *due_s]))
        self._connect_again()
        events = [one for event in told for one in self._take(event)]
        return sorted(events, key=lambda event: isinstance(event, Ended))

    def _take(self, event: Event) -> list[Event]:
        if isinstance(event, Ended):
            assert isinstance(event.process, Process)
            why = self._explain(event.process).cause
            self._plan_connection(event.process)
            gone = [one for one in self._hosts.values() if one.link is event.process]
            return [ended for host in gone for ended in self._lose(host, why)]
        if not isinstance(event, Said):
            return []
        said = event.values
        if "up" in said:
            assert isinstance(event.process, Process)
            self._up(event.process, said)
        elif "down" in said:
            host = self._hosts.get(said["down"])
            return self._lose(host, said["why"]) if host is not None else []
        elif "error" in said and "role" not in said:
            raise error_told(said["error"], "", None)
        elif said.get("role", -1) in self._roles:
            return self._of_role(self._roles[said["role"]], said)
        return []

    def _plan_connection(self, link: Process) -> None:
        """Each is tried again after twice the time of the one before it, until the run ends."""
        tries = self._tries[link.name] = self._tries.get(link.name, 0) + 1
        wait_s = min(_AGAIN_MAX_S, _AGAIN_S * 2 ** (tries - 1))
        self._open.remove(link)
        self._again.append((time.monotonic() + wait_s, link))

    def _connect_again(self) -> None:
        now = time.monotonic()
        for link in [link for when, link in self._again if when <= now]:
            new = self._group.start(link.name, link.args, program=link.program, told=True)
            self._open.append(new)
        self._again = [one for one in self._again if one[0] > now]

    def _up(self, link: Process, said: dict[str, Any]) -> None:
        self._tries.pop(link.name, None)
        facts = {name: said[name] for name in ("address", "cores", "interfaces")}
        host = Host(said["up"], link, **facts, takes=tuple(said["takes"]))
        self._hosts[host.name] = host
        self._note(f"host {host.name} is there: {host.address}, {host.cores} cores")
        for role in self._roles.values():
            if role.host is None and role.returncode is None:
                self._place(role)

    def _lose(self, host: Host, why: str) -> list[Event]:
        del self._hosts[host.name]
        self._note(f"host {host.name} is lost: {why}")
        events: list[Event] = []
        for role in host.roles.values():
            role.lost, role.returncode = True, -9
            role.ending = f"was lost with {host.name}"
            events.append(Ended(role, -9))
        return events

    def _of_role(self, role: Far, said: dict[str, Any]) -> list[Event]:
        if "words" in said:
            path = self._log_folder / f"{role.name}.log"
            # A full disk here ends no run: the host that has the role knows its last words.
            with suppress(OSError), path.open("a", encoding="utf-8") as log:
                log.write(said["words"] + "\n")
        elif "said" in said:
            role.last_object = said["said"]
            return [Said(role, said["said"])]
        elif "ended" in said and role.returncode is None:
            role.returncode, role.ending = said["ended"], said["ending"]
            role.error = said["error"]
            if role.host is not None:
                role.host.roles.pop(role.number, None)
            return [Ended(role, said["ended"])]
        return []

    def _look_at(self, process: Any) -> str:
        return f"see {self._log_folder / process.name}.log"

    def end(self, processes: Sequence[Any]) -> list[Said]:
        """Stops these roles and waits for them; returns their last words."""
        waiting = [one for one in processes if one.returncode is None]
        for role in waiting:
            role.stopping = True
            if role.host is None:
                role.returncode, role.ending = 0, "was never started"
        for host in self._hosts.values():
            ids = [role.number for role in waiting if role.host is host]
            if ids:
                host.link.tell(json.dumps({"end": ids, "host": host.name}))
        said: list[Said] = []
        deadline = time.monotonic() + _END_S
        while any(role.returncode is None for role in waiting):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            if self._stop.is_set():
                self._group.deaf()
            for event in self._group.wait(min(left, 0.1)):
                for one in self._take(event):
                    if isinstance(one, Said) and one.process in waiting:
                        said.append(one)
                    else:
                        self._heard.append(one)
        return said
