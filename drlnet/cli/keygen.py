"""`drlnet keygen`: a server's identity, and keys for those that may use it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output

DirArgument = Annotated[Path, typer.Argument(metavar="DIR", help="where the key files go")]
RotateOption = Annotated[
    bool,
    typer.Option(
        "--rotate",
        help="replace the keys in DIR; the server takes the former ones, too",
    ),
]


def keygen(
    folder: DirArgument,
    rotate: RotateOption = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make the keys of a server and of its clients: server.key, learner.key, actor.key, viewer.key.

    With --key the sessions of every command are encrypted and authenticated.
    A server takes server.key, each other command the file of its role, or the
    folder, of which it takes its own. An actor cannot change priorities or
    publish; a viewer only reads statistics. Keep the files to yourself.

    [bold]Examples[/bold]

    drlnet keygen keys

    drlnet serve --listen udp://0.0.0.0:7447 --key keys/server.key

    drlnet actor --server udp://10.0.0.2:7447 --key keys/actor.key

    drlnet run CartPole-v1 --key keys

    drlnet keygen keys --rotate
    """
    from drlnet.config.keys import fingerprint_in, make_keys

    paths = make_keys(folder, rotate=rotate)
    output = Output(json)
    for path in paths:
        output.note(f"wrote {path}")
    key = fingerprint_in(paths[-1])
    output.note(f"the server's key: {key}")
    output.event("keys", files=[str(path) for path in paths], server_key=key)
