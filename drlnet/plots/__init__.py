"""The project's plots: one style, and what each kind of figure needs.

    figure = Figure("Latency over sizes", panels=["draw", "update"])
    figure.lines("draw", {"prioritized": Line(sizes, p50_us, high=p99_us)}, x=Axis("leaves", log=2))
    figure.save(Path("latency.svg"))

Importing this package imports matplotlib, so commands import it where they draw.
"""

from drlnet.plots.figure import Figure
from drlnet.plots.panel import Axis, Bar, Line, Mark

__all__ = ["Axis", "Bar", "Figure", "Line", "Mark"]
