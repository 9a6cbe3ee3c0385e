"""Encode one output of a mechanism, of any type, as numbers.

Two outputs get equal numbers only if they are equal: an attack must be able to see every difference in values, types
and structure that an observer could see. `outputs.py` puts the encodings of many runs into a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np

from hush.errors import InvalidArgument

EXACT = 1 << 53  # doubles represent every integer up to this one
_LIMB_BITS = 52  # bits of a large integer that go into one double


class Raised:
    """The output of a run that raised an exception. An observer sees its type, so it counts as an output."""

    def __init__(self, error: Exception) -> None:
        """Keep the exception, to raise it again if the mechanism never returns."""
        self.error = error


def encode(output: Any) -> list[float]:
    """Encode an output as a list of numbers.

    The first number is the count of the others plus a fraction that identifies structure and types: None differs from
    [], and [[1], [2, 3]] differs from [[1, 2], [3]]. For a flat sequence of one type, the fraction is the same whatever
    the length, so that lengths are comparable numbers.

    >>> encode([0.5, 0.25])[1:]
    [0.5, 0.25]
    >>> encode(None) == encode([])
    False
    """
    kinds: list[str] = []
    values = list(_numbers(output, kinds))
    return [len(values) + fingerprint(_structure(kinds)) / 2**32, *values]


def fingerprint(text: str | bytes) -> int:
    """Return a hash of a text, below 2^32."""
    # Not Python's hash, which has another salt in every process: a threshold has to mean the same later on.
    return int.from_bytes(blake2b(text.encode() if isinstance(text, str) else text, digest_size=4).digest(), "big")


def _structure(kinds: list[str]) -> str:
    """Return the structure as one line, without the length of a flat sequence whose entries share one type."""
    inner = kinds[1:-1]
    if len(set(inner)) == 1 and not inner[0].startswith(("<", ">")) and kinds[0].startswith("<"):
        # Otherwise every length would be a separate type, and no threshold on lengths could be learned.
        kinds = [kinds[0], inner[0], "*", kinds[-1]]
    return " ".join(kinds)


def _numbers(output: Any, kinds: list[str]) -> Iterator[float]:
    """Yield the numbers of an output, and append their types and brackets to ``kinds``."""
    name = type(output).__name__
    if isinstance(output, Raised):
        kinds.append(f"raised {type(output.error).__qualname__}")
    elif isinstance(output, np.ndarray | np.generic) or hasattr(output, "__array__"):
        yield from _array_numbers(np.asarray(output), name, kinds)
    elif isinstance(output, Mapping):
        yield from _collection_numbers([part for item in output.items() for part in item], name, kinds)
    elif isinstance(output, Set):
        # A set's order is Python's own. Sorted, equal sets have equal numbers.
        yield from _collection_numbers(sorted(output, key=repr), name, kinds)
    elif isinstance(output, Sequence) and not isinstance(output, str | bytes):
        yield from _collection_numbers(output, name, kinds)
    else:
        kinds.append(name)
        yield from _scalar_numbers(output, nested=len(kinds) > 1)


def _collection_numbers(parts: Sequence[Any], name: str, kinds: list[str]) -> Iterator[float]:
    kinds.append(f"<{name}")
    for part in parts:
        yield from _numbers(part, kinds)
    kinds.append(">")


def _array_numbers(array: np.ndarray[Any, Any], name: str, kinds: list[str]) -> Iterator[float]:
    if array.ndim == 0 and array.dtype != object:
        kinds.append(f"{name} {array.dtype}")
        yield from _scalar_numbers(array.item(), nested=True)
        return
    kinds.append(f"<{name} {array.dtype} {'' if array.ndim == 1 else array.shape}")
    if (array.dtype == np.longdouble and array.dtype.itemsize > 8) or array.dtype.kind == "V":
        raise InvalidArgument("output", str(array.dtype), "numbers that a double can represent")
    for part in array.ravel().tolist():
        yield from _numbers(part, kinds)
    kinds.append(">")


def _scalar_numbers(output: Any, *, nested: bool) -> Iterator[float]:
    """Yield the numbers of a scalar: several if one double cannot hold it exactly."""
    if output is None:
        yield from (math.nan,) if nested else ()
    elif isinstance(output, str | bytes):
        yield float(fingerprint(output))
    elif isinstance(output, complex):
        yield from (output.real, output.imag)
    elif isinstance(output, float) or (isinstance(output, int) and abs(output) <= EXACT):
        yield float(output)
    elif isinstance(output, int):
        # The nearest double lets thresholds compare large integers; the bits tell close ones apart.
        high_bits = output >> _LIMB_BITS
        yield from (_nearest_double(output), float(output & ((1 << _LIMB_BITS) - 1)))
        yield float(high_bits) if abs(high_bits) <= EXACT else float(fingerprint(hex(high_bits)))
    elif isinstance(output, Decimal | Fraction):
        yield from (_nearest_double(output), float(fingerprint(str(output))))
    else:
        raise InvalidArgument(
            "output",
            type(output).__name__,
            "numbers, text, None, or lists, arrays, dictionaries and sets of them",
            "Return what a reader sees of the output, such as its text",
        )


def _nearest_double(number: int | Decimal | Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
