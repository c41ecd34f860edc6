"""Lines of fixed columns: nothing wraps, and no column moves when its figures change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.text import Text

T = TypeVar("T")


@dataclass(frozen=True)
class Column(Generic[T]):
    """rank: where not all fit, those of the highest rank are left out first."""

    heading: str
    width: int
    cell: Callable[[T], str | Text]
    rank: int = 0
    left: bool = False

    def pad(self, content: str | Text) -> Text:
        """The content in the column's width."""
        text = content.copy() if isinstance(content, Text) else Text(content)
        return fitted(text, self.width, left=self.left)


def fitted(text: Text, width: int, *, left: bool = True) -> Text:
    """The text in exactly `width` cells, cut with "…" where it is longer."""
    text.truncate(width, overflow="ellipsis")
    space = width - text.cell_len
    text.pad_right(space) if left else text.pad_left(space)
    return text


def fitting(columns: Iterable[Column[T]], width: int) -> list[Column[T]]:
    """The columns that fit side by side, with a space between them."""
    chosen = list(columns)
    while chosen and sum(column.width + 1 for column in chosen) - 1 > width:
        chosen.remove(max(reversed(chosen), key=lambda column: column.rank))
    return chosen


def table(columns: Sequence[Column[T]], things: Iterable[T]) -> list[Text]:
    """A line of headings, and one for each thing."""
    heads = Text(" ").join(column.pad(Text(column.heading, "bold")) for column in columns)
    return [
        heads,
        *(Text(" ").join(column.pad(column.cell(thing)) for column in columns) for thing in things),
    ]


def beside(left: Sequence[Text], right: Sequence[Text], width: int, gap: int = 2) -> list[Text]:
    """Two blocks of lines side by side; the left one gets `width` cells."""
    lines = []
    for index in range(max(len(left), len(right))):
        line = fitted(left[index].copy() if index < len(left) else Text(), width)
        lines.append(line + Text(" " * gap) + right[index] if index < len(right) else line)
    return lines
