"""What `drlnet launch` starts for itself: the part of a run on one host, and Ray's driver."""

from __future__ import annotations

from typing import Annotated

import typer

from drlnet.cli.stopping import until_stopped


def agent(
    host: Annotated[str, typer.Argument()],
    address: Annotated[str, typer.Option("--address")] = "",
    takes: Annotated[list[str] | None, typer.Option("--takes")] = None,
) -> None:
    """The part of a run on one host, for `drlnet launch`."""
    from drlnet.launch.agent import own_address, serve_agent

    with until_stopped() as stop:
        serve_agent(host, address or own_address(), takes or [], stop)


def ray_bridge(
    wanted: Annotated[str, typer.Option("--wanted")],
    address: Annotated[str | None, typer.Option("--address")] = None,
) -> None:
    """Ray's driver, for `drlnet launch`."""
    import json

    from drlnet.errors import tell
    from drlnet.launch.engines.ray import bridge

    try:
        bridge(address, json.loads(wanted))
    except Exception as error:
        print(json.dumps({"error": tell(error).said()}), flush=True)
        raise
