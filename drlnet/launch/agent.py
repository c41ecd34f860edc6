"""A host's part of a run: starts and watches the roles that it is told to, until its input ends.

It speaks lines of JSON. In: {"start": ID, "name", "argv", "key"}, {"end": [ID, ...]}; key, where
argv has --key: the text of the file, which the role is to find in this process' memory. Out: {"up":
HOST, "address", "cores", "interfaces", "takes"}, then of each role {"role": ID, "said": {...}},
{"role": ID, "words": LINE} and {"role": ID, "ended": CODE, "ending", "error"}. Every line of its
output has its HOST. Nothing outlives it, and it outlives the connection that started it by no more
than what its roles need to end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from drlnet.errors import tell
from drlnet.launch.process import Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Said, Supervisor, Told

_FOREVER_S = 3600.0
_GRACE_S = 15.0  # for a learner that keeps its state


def interfaces() -> dict[str, str]:
    """The IPv4 address of each interface of this machine that has one."""
    import fcntl
    import socket
    import struct

    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            asked = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(any_socket, 0x8915, asked)  # SIOCGIFADDR
            except OSError:  # it has none
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


def own_address() -> str:
    """Where other hosts reach this one: where the ssh connection that started this came to."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    return connection[2] if len(connection) == 4 else "127.0.0.1"


def serve_agent(host: str, address: str, takes: Sequence[str], stop: Stop) -> None:
    """Does what it is told on standard input, until that ends or `stop`. Main thread only."""
    agent = _Agent(host, stop)
    with Supervisor(stop, grace_s=_GRACE_S, words=agent.words) as group:
        group.listen(sys.stdin.fileno())
        cores = len(os.sched_getaffinity(0))
        about = {"address": address, "cores": cores, "takes": list(takes)}
        agent.say(up=host, pid=os.getpid(), interfaces=interfaces(), **about)
        agent.run(group, stop)


class _Agent:
    """Which process is which role. Not thread-safe."""

    def __init__(self, host: str, stop: Stop) -> None:
        self._host, self._stop = host, stop
        self._ids: dict[Process, int] = {}
        self._key_files: dict[str, str] = {}  # their paths, by their texts

    def say(self, **values: Any) -> None:
        """A line for the one that started this agent. Where it has gone, the agent ends."""
        try:
            print(json.dumps({**values, "host": self._host}), flush=True)
        except BrokenPipeError:  # its roles end as they do else, with the time that it takes
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
            self._stop.set()

    def words(self, name: str, line: str) -> None:
        """A line that a role has said for people."""
        ids = [number for process, number in self._ids.items() if process.name == name]
        self.say(role=ids[-1] if ids else -1, words=line)

    def run(self, group: Supervisor, stop: Stop) -> None:
        """Until the input ends, or stop."""
        while not stop.is_set():
            for event in group.wait(_FOREVER_S):
                if isinstance(event, Told):
                    if event.line is None:
                        return
                    self._do(group, json.loads(event.line))
                elif isinstance(event.process, Process):
                    self._tell(event, self._ids[event.process])

    def _do(self, group: Supervisor, told: dict[str, Any]) -> None:
        if "start" in told:
            argv = list(told["argv"])
            if "key" in told:
                argv[argv.index("--key") + 1] = self._key_file(told["key"])
            self._ids[group.start(told["name"], argv)] = told["start"]
        for said in group.end([one for one, n in self._ids.items() if n in told.get("end", ())]):
            assert isinstance(said.process, Process)
            self._tell(said, self._ids[said.process])

    def _key_file(self, text: str) -> str:
        """A file of that text, in memory, which this user alone can read, while the agent lives."""
        if text not in self._key_files:
            file = os.memfd_create("key")
            os.write(file, text.encode())
            os.fchmod(file, 0o600)
            self._key_files[text] = f"/proc/{os.getpid()}/fd/{file}"
        return self._key_files[text]

    def _tell(self, event: Said | Ended, number: int) -> None:
        if isinstance(event, Said):
            self.say(role=number, said=event.values)
            return
        process = event.process
        error = tell(process.failure()).said()
        self.say(role=number, ended=event.returncode, ending=process.ending, error=error)
