"""What callers pass, checked: a wrong one is a ConfigError that names the argument."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drlnet.errors import ConfigError, one_line

_LARGEST = 2**64 - 1
_FOREVER_S = 1e9  # some thirty years: what a timeout of None means
MOST_AHEAD = 1000  # batches that a stream asks for ahead


def wrong(name: str, value: object, remedy: str) -> ConfigError:
    """Makes the error of an argument of that name."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return ConfigError(f"{name} is {shown}, of type {type(value).__name__}", remedy)


def whole(name: str, value: object, least: int = 0, most: int = _LARGEST) -> int:
    """The value as an int from least to most. Raises ConfigError."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        up_to = "or more" if most == _LARGEST else f"to {most:,}"
        raise wrong(name, value, f"give a whole number, {least:,} {up_to}")
    return number


def number(name: str, value: object) -> float:
    """The value as a float. Raises ConfigError."""
    if not isinstance(value, Real):
        raise wrong(name, value, "give a number")
    try:
        return float(value)
    except OverflowError:
        raise wrong(name, value, "give a number that a float can hold") from None


def flag(name: str, value: object) -> bool:
    """The value as a bool. Raises ConfigError."""
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, value, "give True or False")
    return bool(value)


def path_text(name: str, value: object) -> str:
    """The value as a path's text, which can name a file. Raises ConfigError."""
    given = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(given, str) or "\0" in given:
        raise wrong(name, value, "give a path")
    return given


def seconds(timeout: float | None) -> float:
    """The timeout as a float; None: without end. Raises ConfigError."""
    return _FOREVER_S if timeout is None else number("timeout", timeout)


def text(name: str, value: object, choices: tuple[str, ...] = ()) -> str:
    """The value, a str of the choices, if there are any. Raises ConfigError."""
    if not isinstance(value, str) or (choices and value not in choices):
        raise wrong(name, value, f"give {' or '.join(map(repr, choices)) or 'a str'}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise wrong(name, value, "give a str that UTF-8 can hold") from None
    return value


def contents(name: str, value: object) -> bytes:
    """The value as bytes. Raises ConfigError."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise wrong(name, value, "give bytes")
    return bytes(value)


def readings(name: str, values: object) -> dict[str, int | float | str]:
    """What a report may hold: texts, ints of 64 bits and floats by name. Raises ConfigError."""
    if not isinstance(values, Mapping):
        raise wrong(name, values, "give a dict of figures by name")
    checked: dict[str, int | float | str] = {}
    for key, value in values.items():
        text(f"a key of {name}", key)
        where = f"{name}[{key!r}]"
        if isinstance(value, str):
            checked[key] = text(where, value)
        elif isinstance(value, Integral | np.bool_) and -(2**63) <= int(value) < 2**63:
            checked[key] = int(value)
        elif isinstance(value, Real):
            checked[key] = number(where, value)
        else:
            raise wrong(where, value, "give a number or a str")
    return checked


@contextmanager
def converting(name: str) -> Iterator[None]:
    """Raises ConfigError, naming the argument, where numpy or Python cannot convert it."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # the last: torch's
        raise ConfigError(f"{name}: {one_line(error)}", "give what the docstring says") from error


def converted(name: str, values: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values as a contiguous array of that dtype. Raises ConfigError."""
    try:
        return np.ascontiguousarray(values, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name}: {one_line(error)}", f"give an array of {dtype}") from error


def of_numpy(name: str, values: ArrayLike) -> ArrayLike:
    """An array of another library, such as a tensor, as numpy's. Raises ConfigError."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__array__"):
        return values
    with converting(name):
        return np.asarray(values)


def array(name: str, values: ArrayLike, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The same of an array of one dimension; where dtype is of integers, an array of integers."""
    values = of_numpy(name, values)
    if (
        dtype.kind in "iu"
        and isinstance(values, np.ndarray)
        and values.size  # one of no values has numpy's usual dtype
        and values.dtype.kind not in "iu"
    ):
        raise ConfigError(f"{name} is an array of {values.dtype}", f"give one of {dtype}")
    row = converted(name, values, dtype)
    if row.ndim != 1:
        raise ConfigError(f"{name} has shape {row.shape}", "give an array of one dimension")
    return row
