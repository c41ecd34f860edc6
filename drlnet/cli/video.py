"""Films of an episode: GIF by Pillow, MP4 by ffmpeg (imageio-ffmpeg), a window by matplotlib."""

from __future__ import annotations

import errno
import math
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from drlnet.errors import ConfigError, cannot_write
from drlnet.metrics.whole import whole_file

if TYPE_CHECKING:
    from drlnet.envs import Film
    from drlnet.envs.film import Picture

_LEAST_HEIGHT = 400  # pixels: MinAtar's pictures have 10
_PICTURES_MAX = 3_000  # a game may last half an hour, and a GIF of it is kept in memory
_GIF_PER_S_MAX = 50  # viewers show pictures of less than 20 ms for 100 ms


def check_video(path: Path) -> None:
    """Raises ConfigError for a file that write_video could not write: before anything is played."""
    if path.suffix not in (".gif", ".mp4"):
        raise ConfigError(f"{path} is not a supported video file", "name it .gif or .mp4")
    if not path.parent.is_dir():
        raise ConfigError(f"cannot write {path}: no such folder", "make it, or choose another")
    if path.suffix == ".mp4":
        try:
            import imageio_ffmpeg  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                f"{path} needs the package imageio-ffmpeg: {error}",
                "pip install 'drlnet[video]', or name it .gif",
            ) from error


def write_video(path: Path, film: Film) -> int:
    """Plays the film into a file of that suffix; returns how many pictures it has.

    Raises ConfigError when the file cannot be written: one that was there before stays as it was.
    """
    count = 0

    def counted() -> Iterator[Picture]:
        nonlocal count
        for picture in islice(film.pictures, _PICTURES_MAX):
            count += 1
            yield picture

    try:
        encode = _gif if path.suffix == ".gif" else _mp4
        with whole_file(path) as file:
            encode(counted(), film.per_s, file)
    except OSError as error:
        raise cannot_write(path, error) from error
    return count


def show_film(film: Film) -> int:
    """Plays the film in a window, at its own speed, until it ends or the window is closed.

    Returns how many pictures were shown. Raises ConfigError where there is no display.
    """
    from matplotlib import pyplot

    figure = pyplot.figure("drlnet", facecolor="black")
    if figure.canvas.required_interactive_framework is None:
        raise ConfigError(
            f"no window can be opened: matplotlib draws with {pyplot.get_backend()} here",
            "use --video FILE.gif, or a machine with a display (and tkinter or PyQt)",
        )
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    image, count = None, 0
    for picture in film.pictures:
        count += 1
        due = time.monotonic() + 1 / film.per_s
        if image is None:
            image = axes.imshow(picture, interpolation="nearest")
        image.set_data(picture)
        figure.canvas.draw()
        pyplot.pause(max(1e-3, due - time.monotonic()))  # what drawing took does not add up
        if not pyplot.fignum_exists("drlnet"):
            break
    pyplot.close(figure)
    return count


def _times(picture: Picture) -> int:
    return -(-_LEAST_HEIGHT // len(picture))


def _gif(pictures: Iterator[Picture], per_s: float, into: BinaryIO) -> None:
    from PIL import Image

    step = math.ceil(per_s / _GIF_PER_S_MAX)
    # It counts hundredths of a second: pictures last so many that the whole keeps its speed.
    ends = [round(100 * step * i / per_s) for i in range(_PICTURES_MAX + 1)]

    def images() -> Iterator[Image.Image]:
        for picture in islice(pictures, 0, None, step):
            image = Image.fromarray(picture).quantize()  # before it grows: fewer pixels to look at
            times = _times(picture)
            size = (image.width * times, image.height * times)
            yield image.resize(size, Image.Resampling.NEAREST)

    all_images = images()
    next(all_images).save(
        into,
        "GIF",
        save_all=True,
        append_images=all_images,
        duration=[10 * (end - begin) for begin, end in pairwise(ends)],
        loop=0,
    )


def _mp4(pictures: Iterator[Picture], per_s: float, into: BinaryIO) -> None:
    # Its write_frames() does not tell where ffmpeg failed. ffmpeg seeks in what it writes.
    import imageio_ffmpeg

    def grown() -> Iterator[Picture]:
        for picture in pictures:
            times = _times(picture)
            large = picture.repeat(times, axis=0).repeat(times, axis=1)
            height, width = large.shape[:2]  # of an even size, as its colours are stored by fours
            yield np.pad(large, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")

    frames = grown()
    first = next(frames)
    height, width = first.shape[:2]
    taken = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {per_s:.2f} -i -"
    made = "-c:v libx264 -crf 25 -pix_fmt yuv420p -f mp4"
    told = f"-y -v error -xerror {taken} {made}".split()
    command = [imageio_ffmpeg.get_ffmpeg_exe(), *told, into.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as ffmpeg:
        assert ffmpeg.stdin is not None
        try:
            for frame in chain([first], frames):
                ffmpeg.stdin.write(frame.tobytes())
        except BrokenPipeError:
            pass  # it has ended, and says why
        except BaseException:  # Ctrl-C, or the environment's own
            ffmpeg.kill()
            with suppress(BrokenPipeError):  # what is buffered is of no use
                ffmpeg.stdin.close()
            raise
        said = ffmpeg.communicate()[1].decode(errors="replace").strip()
    if ffmpeg.returncode or said:
        words = said.splitlines()[-1] if said else f"ended with {ffmpeg.returncode}"
        raise OSError(errno.ENOSPC, f"ffmpeg: {words}")  # the likeliest cause
