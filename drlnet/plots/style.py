"""What all plots look like: sizes for a README's width, colours that everyone can tell apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

WIDTH_INCHES = 9.0  # 864 px as an SVG: the text column of a README
MUTED = "#777777"  # marks, and words that are not the matter

# The palette of M. Okabe and K. Ito (Color Universal Design, 2008) without its yellow, which is
# hard to see on white, and with a grey.
_COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#000000", "#8C8C8C"),
)
Dashes = Literal["-", "--", ":"]
_DASHES: tuple[Dashes, ...] = ("-", "--", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_HATCHES = ("", "////", "....")

RC: Any = {  # matplotlib types its keys one by one, and each version others
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999999",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "xtick.color": "#999999",
    "ytick.color": "#999999",
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "hatch.linewidth": 0.8,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.08,
    # The same figures make the same file: no random names, no fonts' outlines, no date.
    "svg.hashsalt": "drlnet",
    "svg.fonttype": "none",
}


@dataclass(frozen=True)
class Look:
    """How one subject is drawn, wherever it appears in a figure."""

    colour: str
    dashes: Dashes
    marker: str
    hatch: str  # of its bars


def look(index: int) -> Look:
    """The style of a subject by its number: colours first, then dashes or hatches with them."""
    again = index // len(_COLOURS)
    return Look(
        colour=_COLOURS[index % len(_COLOURS)],
        dashes=_DASHES[again % len(_DASHES)],
        marker=_MARKERS[index % len(_MARKERS)],
        hatch=_HATCHES[again % len(_HATCHES)],
    )


def number(value: float) -> str:
    """A tick's label: 0.01, 5, 1,000, 20k, 1.5M."""
    size = abs(value)
    for limit, scale, unit in ((1e4, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if size < limit * 0.9995:
            scaled = value / scale
            return f"{scaled:,.0f}{unit}" if abs(scaled) >= 1000 else f"{scaled:.4g}{unit}"
    return f"{value:.3g}"


def duration(microseconds: float) -> str:
    """A tick's label: 200 ns, 5 us, 1 ms, 10 s."""
    for limit, scale, unit in ((1, 1e-3, "ns"), (1e3, 1, "us"), (1e6, 1e3, "ms")):
        if microseconds < limit * 0.9995:
            return f"{microseconds / scale:.4g} {unit}"
    return f"{number(microseconds / 1e6)} s"


def decades(low: float, high: float, most: float) -> tuple[float, ...]:
    """Picks the multiples of each power of 10 that get a tick, `most` ticks at most."""
    spanned = math.log10(high / low) if low > 0 and high > low else 1.0
    choices = ((1.0, 2.0, 5.0), (1.0, 3.0))
    return next((choice for choice in choices if spanned * len(choice) <= most), (1.0,))
