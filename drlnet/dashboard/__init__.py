"""Draws what metrics hold: flat dicts of readings in, lines or live views out."""

from drlnet.dashboard.progress import ProgressView
from drlnet.dashboard.stats import StatsView, as_json

__all__ = ["ProgressView", "StatsView", "as_json"]
