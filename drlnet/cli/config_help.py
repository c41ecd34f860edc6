"""Every setting with its default and meaning, as `--help-config` prints them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from drlnet.config.fields import walk
from drlnet.config.load import build, parse_set
from drlnet.config.toml import literal


def print_config_help(
    env_id: str | None = None, algo: str | None = None, sets: Sequence[str] = ()
) -> None:
    """A table of all keys, 80 columns wide on a narrow terminal.

    env_id, algo, sets: ENV, --algo and --set, which decide whose settings [env], [algo], [policy]
    and [net] are. Raises ConfigError for what they cannot be.
    """
    given = {"env.id": env_id, "algo.name": algo}
    chosen = {key: value for key, value in given.items() if value is not None}
    chosen.update(map(parse_set, sets))
    table = Table(box=None, pad_edge=False, show_header=True)
    table.add_column("key", no_wrap=True, style="cyan")
    table.add_column("default", overflow="fold", max_width=16)
    table.add_column("meaning")
    section = ""
    for key, value, field in walk(build(chosen)):
        if key.partition(".")[0] != section:
            section = key.partition(".")[0]
            table.add_section()
        shown = "none" if value is None else literal(value)
        table.add_row(key, shown, field.metadata["help"])
    console = Console()
    console.print(table, markup=False)
    console.print("\nIn a TOML file:  \\[replay]\n                 batch_size = 256")
    console.print("On the command line:  --set replay.batch_size=256")
