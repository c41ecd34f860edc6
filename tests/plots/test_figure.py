"""Figures: the same content makes the same file, and a legend names what is drawn."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drlnet.errors import ConfigError
from drlnet.plots import Axis, Bar, Figure, Line, Mark
from drlnet.plots.figure import check_suffix
from drlnet.plots.style import look, number

SUBJECTS = [f"subject {i}" for i in range(13)]


def words_of(figure: Figure) -> list[str]:
    return [part.text for part in ElementTree.fromstring(figure.svg()).iter() if part.text]


def curves() -> Figure:
    figure = Figure("Title", panels=["left", "right"], share_y=True)
    for panel, scale in (("left", 1.0), ("right", 100.0)):
        lines = {
            name: Line([1, 2, 4], [scale, scale * 2, math.nan], high=[scale * 2] * 3)
            for name in SUBJECTS
        }
        marks = [Mark(2.5, "here"), Mark(5, "goal", axis="y")]
        figure.lines(panel, lines, x=Axis("n", log=2), y=Axis("us", log=10), marks=marks)
    return figure


def test_the_same_figure_is_the_same_text() -> None:
    figure = curves()
    first = figure.svg()
    assert first == figure.svg() == curves().svg()
    assert "<dc:date>" not in first


def test_the_legend_names_every_subject_once() -> None:
    words = words_of(curves())
    assert [word for word in words if word in SUBJECTS] == SUBJECTS
    assert {"Title", "left", "right", "us", "n"} <= set(words)
    assert (words.count("here"), words.count("goal")) == (2, 2)


def test_one_nameless_line_needs_no_legend() -> None:
    figure = Figure("Title")
    figure.lines("", {"": Line([0, 1], [1, 2], low=[0, 1], high=[2, 3])})
    assert "Title" in words_of(figure)


def test_bars_carry_their_values_and_groups() -> None:
    figure = Figure("Bars")
    figure.bars(
        "",
        {"ping, 64 B": {"udp": Bar(64.2, high=97.0), "dpdk": Bar(1.234, label="1.2!")}},
        axis=Axis("us", log=10),
    )
    assert {"Bars", "ping, 64 B", "udp", "dpdk", "64.2", "1.2!"} <= set(words_of(figure))


def test_points_share_their_rows() -> None:
    figure = Figure("Points", panels=["left", "right"], share_y=True)
    rows = {"small": {"a": Bar(1.0, high=3.0), "b": Bar(2.0, behind="*")}, "large": {}}
    for panel, scale in (("left", rows), ("right", {"small": {}, "large": {"b": Bar(5.0)}})):
        figure.points(panel, scale, axis=Axis("us", log=10))
    words = words_of(figure)
    assert [words.count(word) for word in ("small", "large", "a", "b")] == [1, 1, 1, 1]
    svg = figure.svg()
    hollow, filled = (f"fill: {face}; stroke: {look(1).colour.lower()}"
                      for face in ("#ffffff", look(1).colour.lower()))  # fmt: skip
    assert hollow in svg and filled in svg


def test_it_is_written_in_the_format_of_its_name(tmp_path: Path) -> None:
    figure = curves()
    figure.save(tmp_path / "new" / "plot.png")
    figure.save(tmp_path / "plot.SVG")
    assert (tmp_path / "new" / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "plot.SVG").read_text() == figure.svg()
    with pytest.raises(ConfigError, match=r"\.svg or \.png") as raised:
        figure.save(tmp_path / "plot.pdf")
    assert "plot.svg" in raised.value.remedy
    for folder in (".", "/", ".."):
        with pytest.raises(ConfigError, match=r"name it plot\.svg"):
            check_suffix(Path(folder))
    with pytest.raises(ConfigError, match="cannot write"):
        figure.save(tmp_path / "plot.SVG" / "plot.svg")
    (tmp_path / "plot.SVG.part").mkdir()  # where the bytes of a new one would go first
    with pytest.raises(ConfigError, match="cannot write"):
        curves().save(tmp_path / "plot.SVG")
    assert (tmp_path / "plot.SVG").read_text() == figure.svg()


def test_subjects_look_different() -> None:
    assert len({look(i) for i in range(24)}) == 24


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (0.01, "0.01"), (5, "5"), (1500, "1,500"), (20e3, "20k"), (1.5e6, "1.5M")],
)
def test_numbers(value: float, words: str) -> None:
    assert number(value) == words
