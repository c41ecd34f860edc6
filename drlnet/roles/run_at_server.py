"""What a server knows of the run that it serves: blobs of the learner's (Client.put_blob).

"settings" are those of the run, in TOML. "progress" is a JSON object: the run's name, environment
and algorithm, and how far its learner has come.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from drlnet.client import Client
from drlnet.config import Config, differences, dump, joined
from drlnet.errors import ProtocolError, ReplayTimeout, TableMismatch
from drlnet.roles.reach import reach
from drlnet.roles.stop import Stop

SETTINGS, PROGRESS = "settings", "progress"
SETTINGS_TIMEOUT_S = 60.0
_TEXTS = ("name", "env", "algo", "run_dir")  # of progress
_LOOK_S, _SILENT_S = 0.1, 1.0


def tell_settings(client: Client, config: Config) -> None:
    """Lets processes that join the run at this server know its settings."""
    client.put_blob(SETTINGS, dump(config).encode())


def tell_progress(client: Client, config: Config, name: str, figures: Mapping[str, Any]) -> None:
    """Lets the server know which run this is, and how far it has come."""
    about = {"name": name, "env": config.env.id, "algo": config.algo.name}
    client.put_blob(PROGRESS, json.dumps({**about, **figures}).encode())


def progress(client: Client) -> dict[str, Any]:
    """What tell_progress told last; empty before. Raises ProtocolError for anything else: any
    client may have put it there."""
    found = client.get_blob(PROGRESS)
    if found is None:
        return {}
    try:
        told = json.loads(found[1])
    except (ValueError, RecursionError):
        told = None
    if not _is_progress(told):
        raise _unreadable("progress", client)
    return dict(told)


def _is_progress(told: object) -> bool:
    """Whether it holds what its readers use, each of its kind."""
    if not isinstance(told, dict) or not all(isinstance(told.get(key, ""), str) for key in _TEXTS):
        return False
    before = told.get("env_steps_before") if "run_dir" in told else 0
    return type(before) is int and before >= 0


def _settings(blob: bytes, client: Client) -> str:
    try:
        return blob.decode()
    except UnicodeDecodeError:
        raise _unreadable("settings", client) from None


def _unreadable(what: str, client: Client) -> ProtocolError:
    return ProtocolError(
        f"the blob {what!r} at {client.address} is not what a learner tells of its run",
        "install the same drlnet on both sides; without keys any client can have put it there",
    )


def explained(client: Client, config: Config, error: TableMismatch) -> TableMismatch:
    """That error with the setting in which `config` is not that of the server's run, if it says."""
    found = client.get_blob(SETTINGS)
    told = None if found is None else joined(_settings(found[1], client), client.address)
    first = None if told is None else next(differences(config, told), None)
    if first is None:
        return error
    key, ours, theirs = first
    return TableMismatch(
        f"{error.cause}: {key} is {ours!r} here, {theirs!r} in the run at {client.address}",
        "leave ENV and its settings out: the server tells those of its run",
    )


def settings_told(server: str, stop: Stop, note: Callable[[str], None]) -> str:
    """The settings of the run at that server, in TOML; waits for its learner to tell them.

    note: told what it waits for. Errors: the client's; ReplayTimeout when none tells them in time;
    KeyboardInterrupt when stopped before. Main thread.
    """
    with reach(server, "joining", "block", stop, note) as client, stop.interrupts():
        began_s, noted = time.monotonic(), False
        while (found := client.get_blob(SETTINGS)) is None:
            waited_s = time.monotonic() - began_s
            if waited_s > SETTINGS_TIMEOUT_S:
                raise ReplayTimeout(
                    f"no learner has told the settings of its run at {server} "
                    f"within {SETTINGS_TIMEOUT_S:g} s",
                    "start `drlnet learn ENV` with the same --server, or name ENV here, too",
                )
            if waited_s > _SILENT_S and not noted:
                note(f"waiting for a learner to tell {server} the settings of its run")
                noted = True
            stop.wait(_LOOK_S)
        return _settings(found[1], client)
