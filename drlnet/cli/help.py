"""`drlnet help`: the documentation, a Markdown file of drlnet/docs for each topic."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from drlnet.cli import completion
from drlnet.cli.options import DebugOption

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

DOCS = Path(__file__).resolve().parents[1] / "docs"
_LINK = re.compile(r"\[[^\]]+\]\((\w+)\.md\)")

TopicArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC",
        autocompletion=completion.topics,
        help="none: list the topics",
        show_default=False,
    ),
]


def topics() -> dict[str, str]:
    """Each topic's name, and what it tells: the second half of its file's first line."""
    found = {}
    for path in sorted(DOCS.glob("*.md")):
        with path.open(encoding="utf-8") as file:
            found[path.stem] = file.readline().partition(": ")[2].strip()
    return found


def show_help(
    context: typer.Context, topic: TopicArgument = None, debug: DebugOption = False
) -> None:
    """Read the documentation: drawn and paged in a terminal, Markdown in a pipe.

    [bold]Examples[/bold]

    drlnet help

    drlnet help transports

    drlnet help operations | less
    """
    if topic is None:
        _list_topics()
    elif topic in topics():
        _show((DOCS / f"{topic}.md").read_text(encoding="utf-8"))
    else:
        _refuse(topic, list(getattr(context.find_root().command, "commands", ())))


def _list_topics() -> None:
    found = topics()
    width = max(map(len, found))
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000
    for name, line in found.items():
        first, *rest = textwrap.wrap(line, max(columns - width - 2, 20))
        print(f"{name:{width}}  {first}")
        for more in rest:
            print(" " * (width + 2) + more)
    print("\ndrlnet help TOPIC shows one; drlnet COMMAND --help the options of a command.")


def _refuse(topic: str, commands: list[str]) -> None:
    from drlnet.config.names import remedy_for
    from drlnet.errors import ConfigError

    if topic in commands:
        raise ConfigError(f"{topic} is a command, not a topic", f"drlnet {topic} --help")
    raise ConfigError(f"no help topic {topic!r}", remedy_for(topic, [*topics()]))


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        print(text, end="")
        return
    from rich.console import Console

    # less: leave when all fits the screen, let colours pass. Another pager may not know them.
    os.environ.setdefault("LESS", "FRX")
    pager = os.environ.get("MANPAGER") or os.environ.get("PAGER") or "less"
    console = Console()
    with console.pager(styles="less" in pager and not console.no_color):
        # A link to another topic is a file in a checkout, and a command here.
        console.print(drawn(_LINK.sub(r"`drlnet help \1`", text)), crop=False)


def drawn(text: str) -> RenderableType:
    """A page of Markdown for rich to print with crop=False."""
    from rich.markdown import CodeBlock, Markdown, TableElement
    from rich.syntax import Syntax

    class Copied(CodeBlock):
        """Code as it is written: folded by rich, or indented, it could not be pasted."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            written = str(self.text).rstrip()
            code = Syntax(written, self.lexer_name, theme=self.theme).highlight(written)
            code.rstrip()  # of the line end that the lexer adds
            code.no_wrap, code.overflow = True, "ignore"
            yield code

    class Whole(TableElement):
        """A table that breaks long words; rich would cut them."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                for column in getattr(table, "columns", ()):
                    column.overflow = "fold"
                yield table

    class Page(Markdown):
        elements: ClassVar = {**Markdown.elements, "table_open": Whole, "fence": Copied}

    return Page(text, hyperlinks=False, code_theme="ansi_dark")
