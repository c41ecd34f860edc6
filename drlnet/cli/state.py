"""`drlnet state`: what a server has kept on disk."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output, require_writable, typed

if TYPE_CHECKING:
    from collections.abc import Sequence

commands = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Look at the state that `drlnet serve --state DIR` has kept; nothing of it is changed.",
)

FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="the folder that --state named; no server uses it now")
]
OutOption = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="where the files are written")
]


@commands.command("ls")
def list_state(
    folder: FolderArgument, json: JsonOption = False, debug: DebugOption = False
) -> None:
    """List the tables of a state: rows, items, environment steps, as of its newest record.

    [bold]Examples[/bold]

    drlnet state ls replay-1

    drlnet state ls replay-1 --json | jq '.tables[].items'
    """
    from drlnet.dashboard.units import compact
    from drlnet.native import printable
    from drlnet.roles.saved_state import read_saved

    state, output = read_saved(folder), Output(json)
    shards = "" if state.shards == 1 else f" of {state.shards} shards"
    output.note(
        f"{typed(folder)}: a server{shards}, {state.starts} start{'s' * (state.starts > 1)}, "
        f"params of version {state.params_version}, {state.disk_bytes / 1e6:.1f} MB on disk"
    )
    heads = ("table", "rows", "capacity", "items", "env steps")
    rows: list[tuple[str, ...]] = [heads]
    for table in state.tables:
        numbers = (table.rows, table.capacity, table.items, table.env_steps)
        rows.append((printable(table.name), *map(compact, numbers)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        columns = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        output.note(f"  {name:{widths[0]}}  {'  '.join(columns)}")
    _warn(state.damage, output)
    output.result(json_module.dumps({"folder": str(folder), **asdict(state)}))


@commands.command()
def check(folder: FolderArgument, json: JsonOption = False, debug: DebugOption = False) -> None:
    """Read all of a state, and name what is damaged, by file and byte.

    It takes the memory that a server with this state takes. Exit code 0: all is
    as it was written; 30: something is damaged; each line says what a server
    would go on from.

    [bold]Examples[/bold]

    drlnet state check replay-1
    """
    from drlnet.errors import StateDamaged
    from drlnet.roles.saved_state import damage_of

    output, damage = Output(json), damage_of(folder)
    if damage:
        for line in damage:
            output.note(line)
        raise StateDamaged(
            f"{typed(folder)} is damaged: {damage[0]}",
            "serve it, and it goes on from what is whole; or restore the folder from a copy",
        )
    output.note(f"{typed(folder)}: all is as it was written")
    output.result(json_module.dumps({"folder": str(folder), "damage": damage}))


@commands.command()
def export(
    folder: FolderArgument,
    out: OutOption = Path(),
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write the items of each table to TABLE.npz, for numpy: keys, priorities, lengths, views.

    np.load has keys uint64 [n], priorities float32 [n] as the server stores them,
    lengths uint32 [n], and view.NAME [n, ...] of each view. It takes the memory of
    the server and of all items.

    [bold]Examples[/bold]

    drlnet state export replay-1 --out offline
    """
    from drlnet.roles.saved_state import export_tables

    require_writable(out)
    output = Output(json)
    written, damage = export_tables(folder, out)
    for path, items in written.items():
        output.note(f"written: {typed(path)}, {items:,} items")
    _warn(damage, output)
    files = {str(path): items for path, items in written.items()}
    output.result(json_module.dumps({"files": files, "damage": damage}))


def _warn(damage: Sequence[str], output: Output) -> None:
    for line in damage:
        output.note(f"warning: damaged: {line}")
