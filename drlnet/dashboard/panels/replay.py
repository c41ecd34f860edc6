"""Replay health: how full a table is, what draws see of it, which clients its limiter holds, and
how the learners' mirrors of it fare."""

from __future__ import annotations

import math

from rich.text import Text

from drlnet.dashboard.figures import LIMITER_REASONS, Figures, TableFigures, median_us
from drlnet.dashboard.reading import add
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.units import compact, duration, percent, short, size, small_percent

TITLE = "replay"
_LINES = 3  # per table
_LABEL, _BAR = 8, 10  # the lines take 79 cells: half of 160 columns, less the gap
_NOTABLE = 0.05  # a share of waiting that is worth a colour


def sizes(scene: Scene) -> list[int]:
    """Three lines for each of the tables, of which the first matters most, and one of mirrors."""
    mirrors = 0 if math.isnan(scene.figures.mirrored_per_s) else 1
    return [_LINES * (1 + index) + mirrors for index in range(max(1, len(scene.figures.tables)))]


def draw(scene: Scene, width: int, height: int) -> list[Text]:
    """Three lines per table, and the mirrors last."""
    if not scene.figures.tables:
        return [Text("no table: the first learner or actor makes one", "dim")]
    lines = [line for table in scene.figures.tables for line in _table(table)]
    if math.isnan(scene.figures.mirrored_per_s):
        return lines[:height]
    return [*lines[: height - 1], _mirror(scene.figures)]


def _mirror(figures: Figures) -> Text:
    line = _label("mirror").append(f"{compact(figures.mirrored_per_s):>5} rows/s")
    line.append(f"  {compact(figures.rows_behind):>5} behind  waits ")
    waits = figures.mirror_wait
    line.append(f"{percent(waits):>4}", "yellow" if waits >= _NOTABLE else "")
    line.append(f"  {size(figures.mirror_bytes):>7}")
    return line.append(f"  replaced {small_percent(figures.replaced_share)}")


def _table(table: TableFigures) -> list[Text]:
    fill = table.latest("fill")
    filled = 0 if math.isnan(fill) else round(min(1.0, fill) * _BAR)
    first = _label(table.name).append("█" * filled + "░" * (_BAR - filled), "cyan")
    first.append(f" {percent(fill):>4} full  {compact(table.latest('live_items')):>5} items")
    first.append(f"  mass {compact(table.latest('priority_mass')):>5}")
    first.append(f"  effective {compact(table.latest('effective_items')):>5}")
    first.append(f" ({percent(table.effective_share)})")
    age = table.histogram("sampled_age")
    oldest = math.nan if age is None or not age.count else age.percentile_us(0.99)
    second = _label("sampled").append(f"age {duration(median_us(age)):>7}")
    second.append(f" p99 {duration(oldest):>7}")
    second.append(f"  {short(table.latest('sampled_versions_behind')):>5} versions old")
    second.append(f"  {short(table.latest('samples_per_insert')):>5} per item")
    second.append(f"  stale {small_percent(table.stale_share)}")
    return [first, second, _limiter(table)]


def _limiter(table: TableFigures) -> Text:
    line = _label("limiter")
    for reason in LIMITER_REASONS:
        share = table.limiter_share(reason)
        line.append(f"{reason} ")
        line.append(f"{percent(share):>4}  ", "yellow" if share >= _NOTABLE else "")
    waits = add(table.rate(f"limiter_waits.{reason}") for reason in LIMITER_REASONS)
    return line.append(f"{compact(waits):>5} waits/s")


def _label(name: str) -> Text:
    label = Text(name)
    label.truncate(_LABEL - 1, overflow="ellipsis")
    label.pad_right(_LABEL - label.cell_len)
    return label
