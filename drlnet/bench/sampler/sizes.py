"""How many leaves, as a person types it: 1000, 2^20, or 2^10..2^20 for every power between."""

from __future__ import annotations

import re

from drlnet.errors import ConfigError

MOST = 2**27
_REMEDY = "give sizes from 1 to 2^27, such as 2^10,2^17,2^20 or 2^10..2^27"


def sizes_of(words: str) -> list[int]:
    """The sizes in ascending order, each once. Raises ConfigError."""
    sizes: set[int] = set()
    for word in words.split(","):
        first, dots, last = (part.strip() for part in word.partition(".."))
        if not dots:
            sizes.add(_size_of(first))
            continue
        low, high = _power_of(first), _power_of(last)
        if low > high:
            raise ConfigError(f"the range '{word.strip()}' of sizes is empty", _REMEDY)
        sizes.update(2**power for power in range(low, high + 1))
    return sorted(sizes)


def words_of(size: int) -> str:
    """2^20 for a power of two from 2^10 on, else the number."""
    power = size.bit_length() - 1
    return f"2^{power}" if size == 2**power and power >= 10 else str(size)


def _size_of(word: str) -> int:
    found = re.fullmatch(r"(\d{1,9})|2\^(\d{1,2})", word)
    size = 0 if found is None else int(found[1]) if found[1] else 2 ** int(found[2])
    if found is None:
        raise ConfigError(f"'{word}' is no number of leaves", _REMEDY)
    if not 1 <= size <= MOST:
        raise ConfigError(f"{word} leaves cannot be measured", _REMEDY)
    return size


def _power_of(word: str) -> int:
    size = _size_of(word)
    if size != 2 ** (size.bit_length() - 1):
        raise ConfigError(f"a range of sizes goes over powers of two, {word} is none", _REMEDY)
    return size.bit_length() - 1
