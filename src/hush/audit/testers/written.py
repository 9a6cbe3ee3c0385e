"""One output of a mechanism, of any type, as numbers that are equal only where the outputs are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np

from hush.errors import InvalidArgument

EXACT = 1 << 53  # up to which every whole number is a double
_LIMB = 52  # bits of a whole number that one double holds


class Raised:
    """What stands for an output where the mechanism raised an exception: whoever asks can see which."""

    def __init__(self, error: Exception) -> None:
        """Keep it, to raise it where there is no other output."""
        self.error = error


def written(output: Any) -> list[float]:
    """Write an output as numbers.

    The first is how many others there are, plus a fraction that stands for structure and types: None is not [], and
    [[1], [2, 3]] is not [[1, 2], [3]]. Of a flat sequence of one type the fraction is the same for every length.
    """
    kinds: list[str] = []
    values = list(_numbers(output, kinds))
    return [len(values) + fingerprint(_structure(kinds)) / 2**32, *values]


def fingerprint(text: str | bytes) -> int:
    """Return a number below 2^32 that stands for a text."""
    return int.from_bytes(blake2b(text.encode() if isinstance(text, str) else text, digest_size=4).digest(), "big")


def _structure(kinds: list[str]) -> str:
    """Return the structure in a line, without the length of a flat sequence whose entries are of one type."""
    inner = kinds[1:-1]
    if len(set(inner)) == 1 and not inner[0].startswith(("<", ">")) and kinds[0].startswith("<"):
        kinds = [kinds[0], inner[0], "*", kinds[-1]]
    return " ".join(kinds)


def _numbers(output: Any, kinds: list[str]) -> Iterator[float]:
    """Yield an output's numbers, and add to ``kinds`` what they are."""
    name = type(output).__name__
    if isinstance(output, Raised):
        kinds.append(f"raised {type(output.error).__qualname__}")
    elif isinstance(output, np.ndarray | np.generic) or hasattr(output, "__array__"):
        yield from _array(np.asarray(output), name, kinds)
    elif isinstance(output, Mapping):
        yield from _parts([each for item in output.items() for each in item], name, kinds)
    elif isinstance(output, Set):
        yield from _parts(sorted(output, key=repr), name, kinds)
    elif isinstance(output, Sequence) and not isinstance(output, str | bytes):
        yield from _parts(output, name, kinds)
    else:
        kinds.append(name)
        yield from _single(output, nested=len(kinds) > 1)


def _parts(parts: Sequence[Any], name: str, kinds: list[str]) -> Iterator[float]:
    kinds.append(f"<{name}")
    for part in parts:
        yield from _numbers(part, kinds)
    kinds.append(">")


def _array(array: np.ndarray[Any, Any], name: str, kinds: list[str]) -> Iterator[float]:
    if array.ndim == 0 and array.dtype != object:
        kinds.append(f"{name} {array.dtype}")
        yield from _single(array.item(), nested=True)
        return
    kinds.append(f"<{name} {array.dtype} {'' if array.ndim == 1 else array.shape}")
    if (array.dtype == np.longdouble and array.dtype.itemsize > 8) or array.dtype.kind == "V":
        raise InvalidArgument("output", str(array.dtype), "numbers that doubles can hold")
    for part in array.ravel().tolist():
        yield from _numbers(part, kinds)
    kinds.append(">")


def _single(output: Any, *, nested: bool) -> Iterator[float]:
    """Yield the numbers of one that is no collection; several for what one double cannot hold."""
    if output is None:
        yield from (math.nan,) if nested else ()
    elif isinstance(output, str | bytes):
        yield float(fingerprint(output))
    elif isinstance(output, complex):
        yield from (output.real, output.imag)
    elif isinstance(output, float) or (isinstance(output, int) and abs(output) <= EXACT):
        yield float(output)
    elif isinstance(output, int):
        # The size, for what is close; then the bits, for what is equal.
        rest = output >> _LIMB
        yield from (_nearest(output), float(output & ((1 << _LIMB) - 1)))
        yield float(rest) if abs(rest) <= EXACT else float(fingerprint(hex(rest)))
    elif isinstance(output, Decimal | Fraction):
        yield from (_nearest(output), float(fingerprint(str(output))))
    else:
        raise InvalidArgument(
            "output",
            type(output).__name__,
            "numbers, text, None, or lists, arrays, dictionaries and sets of them",
            "Return what a reader sees of it, such as its text",
        )


def _nearest(number: int | Decimal | Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
