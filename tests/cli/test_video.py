"""Videos: what is written can be read again, and what cannot be written is said before playing."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from installed import require
from PIL import Image

from drlnet.cli import video
from drlnet.envs import Film
from drlnet.errors import ConfigError


def squares(count: int, shape: tuple[int, int] = (10, 11)) -> Film:
    """A red square that moves by one pixel from picture to picture."""
    pictures = [np.zeros((*shape, 3), np.uint8) for _ in range(count)]
    for i, picture in enumerate(pictures):
        picture[i, i] = (255, 0, 0)
    return Film(iter(pictures), per_s=20.0)


def test_a_gif(tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    video.check_video(path)
    assert video.write_video(path, squares(5)) == 5
    assert [file.name for file in tmp_path.iterdir()] == ["film.gif"]
    with Image.open(path) as image:
        assert (image.n_frames, image.size, image.info["duration"]) == (5, (440, 400), 50)
        for i in range(5):
            image.seek(i)
            pixels = np.asarray(image.convert("RGB"))
            assert tuple(pixels[40 * i + 20, 40 * i + 20]) == (255, 0, 0)
            assert pixels[..., 0].sum() == 255 * 1600


@pytest.mark.parametrize(
    ("per_s", "shown_ms"), [(15.0, [70, 60, 70, 70, 60, 70]), (60.0, [30, 40, 30])]
)
def test_a_gif_keeps_the_speed(per_s: float, shown_ms: list[int], tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    assert video.write_video(path, Film(squares(6).pictures, per_s)) == 6
    found: list[int] = []
    with Image.open(path) as image:
        for i in range(image.n_frames):
            image.seek(i)
            found.append(image.info["duration"])
    assert found == shown_ms and sum(found) == round(1000 * 6 / per_s)


def test_a_gif_of_one_picture(tmp_path: Path) -> None:
    still = np.zeros((10, 11, 3), np.uint8)
    video.write_video(tmp_path / "film.gif", Film(iter([still] * 6), per_s=15.0))
    with Image.open(tmp_path / "film.gif") as image:
        assert image.n_frames == 1 and image.info["duration"] == 400


def test_an_mp4(tmp_path: Path) -> None:
    require("imageio_ffmpeg")
    import imageio_ffmpeg

    path = tmp_path / "film.mp4"
    video.check_video(path)
    assert video.write_video(path, squares(5, (401, 33))) == 5
    frames = imageio_ffmpeg.read_frames(str(path))
    facts = next(frames)
    assert (facts["size"], facts["fps"]) == ((34, 402), 20.0)
    assert len(list(frames)) == 5


@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
def test_a_full_disk_leaves_the_film_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A limit on a file's size stands for the disk; ffmpeg inherits it."""
    require("imageio_ffmpeg")
    path, rng = tmp_path / name, np.random.default_rng(0)
    path.write_bytes(b"old")
    noise = Film((rng.integers(0, 255, (400, 400, 3), np.uint8) for _ in range(20)), per_s=20.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(ConfigError, match=f"cannot write .*{name}: ") as caught:
            video.write_video(path, noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert "\n" not in caught.value.cause and "make room" in caught.value.remedy
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(name, b"old")]


@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
def test_an_interruption_leaves_nothing(tmp_path: Path, name: str) -> None:
    require("imageio_ffmpeg")

    def interrupted() -> Iterator[np.ndarray]:
        yield from squares(3).pictures
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        video.write_video(tmp_path / name, Film(interrupted(), per_s=20.0))
    assert not [*tmp_path.iterdir()]


def test_a_film_that_never_ends_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "_PICTURES_MAX", 3)
    assert video.write_video(tmp_path / "film.gif", squares(8)) == 3


@pytest.mark.parametrize(
    ("name", "cause", "remedy"),
    [
        ("film.avi", "is not a supported video file", ".gif or .mp4"),
        ("absent/film.gif", "no such folder", "make it"),
        ("film.mp4", "needs the package imageio-ffmpeg", "pip install 'drlnet[video]'"),
    ],
)
def test_what_cannot_be_written(
    name: str, cause: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigError, match=cause) as info:
        video.check_video(tmp_path / name)
    assert remedy in info.value.remedy


def test_a_place_that_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    path.mkdir()
    with pytest.raises(ConfigError, match=r"cannot write .*film\.gif: Is a directory"):
        video.write_video(path, squares(2))


def test_a_window_needs_a_display() -> None:
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    with pytest.raises(ConfigError, match="matplotlib draws with agg") as info:
        video.show_film(squares(2))
    assert "--video" in info.value.remedy
