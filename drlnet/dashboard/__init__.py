"""Draws what metrics hold: flat dicts of readings in, lines, pictures or live views out."""

from drlnet.dashboard.picture import picture
from drlnet.dashboard.plain import Csv, JsonLines, Lines, Tables, as_json
from drlnet.dashboard.progress import ProgressView
from drlnet.dashboard.reading import Reading
from drlnet.dashboard.screen import Screen

__all__ = [
    "Csv",
    "JsonLines",
    "Lines",
    "ProgressView",
    "Reading",
    "Screen",
    "Tables",
    "as_json",
    "picture",
]
