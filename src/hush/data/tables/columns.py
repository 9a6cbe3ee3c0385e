"""The columns of a schema: what each one holds, and the range or values that are declared for it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from hush.errors import InvalidArgument, check_count

# What DuckDB's trim takes off, and nothing else: a value that was learned must stay as it is in the data, and must
# differ from others as it does there. These are the characters of Unicode's category Zs.
SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric:
    """A column of numbers, scaled from [lower, upper] to [-1, 1]; a bound that is None is to be learned privately."""

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        """Check that bounds which are given are finite, and leave room between them."""
        object.__setattr__(self, "lower", _bound("lower", self.lower))
        object.__setattr__(self, "upper", _bound("upper", self.upper))
        if self.lower is not None and self.upper is not None and not self.upper / 2 - self.lower / 2 > 0:
            raise InvalidArgument("upper", self.upper, f"more than lower={self.lower:.3g}")

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be learned."""
        return self.lower is not None and self.upper is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A column of a few different values, one place each and one for every other; None: to be learned privately."""

    values: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check that the values are different texts."""
        if self.values is not None:
            object.__setattr__(self, "values", texts("values", self.values, minimum=0))

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be learned."""
        return self.values is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A column of text, counted by the words of a public vocabulary (lower case, letters and digits only)."""

    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that every word is one that text is split into."""
        words = texts("vocabulary", self.vocabulary)
        for word in words:
            if not WORD.fullmatch(word) or word != word.lower():
                raise InvalidArgument("vocabulary", word, "single words in lower case, of letters and digits")
        object.__setattr__(self, "vocabulary", words)

    @classmethod
    def from_file(cls, path: str | Path) -> Text:
        """Read a vocabulary, one word in each line."""
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError):
            raise InvalidArgument("vocabulary", str(path), "a readable UTF-8 file, one word in each line") from None
        words = dict.fromkeys(line.strip().lower() for line in lines if line.strip())
        return cls(vocabulary=tuple(words))

    @property
    def complete(self) -> bool:
        """A vocabulary is always given: none is learned."""
        return True


@dataclass(frozen=True, slots=True)
class Ignore:
    """A column that is not used."""

    @property
    def complete(self) -> bool:
        """There is nothing to learn."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """What images look like: values from ``lower`` to ``upper`` are scaled to [0, 1].

    ``shape`` is (channels, height, width); None before it is known.
    """

    lower: float
    upper: float
    shape: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        """Check range and shape."""
        bounds = Numeric(lower=self.lower, upper=self.upper)
        if not bounds.complete:
            raise InvalidArgument("images", None, "lower and upper, the range of pixel values")
        object.__setattr__(self, "lower", bounds.lower)
        object.__setattr__(self, "upper", bounds.upper)
        if self.shape is not None:
            if len(tuple(self.shape)) != 3:
                raise InvalidArgument("shape", self.shape, "three numbers: channels, height and width")
            object.__setattr__(self, "shape", tuple(check_count("shape", side) for side in self.shape))


Column: TypeAlias = Numeric | Category | Text | Ignore


def _bound(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < math.inf:
        raise InvalidArgument(name, value, "a finite number, or null if it is to be learned privately")
    try:
        return float(value)
    except OverflowError:
        raise InvalidArgument(name, value, "a finite number") from None


def texts(name: str, values: Any, minimum: int = 1) -> tuple[str, ...]:
    """Return different texts, trimmed as values of the data are; refuse anything else."""
    if isinstance(values, str) or not isinstance(values, (tuple, list)):
        raise InvalidArgument(name, values, "a list of texts")
    # Numbers are welcome in a list of categories: the data are compared as text, without spaces around it.
    plain = [isinstance(one, (str, int)) and not isinstance(one, bool) for one in values]
    stripped = [str(one).strip(SPACES) if good else "" for one, good in zip(values, plain, strict=True)]
    found = tuple(text for text in stripped if text)
    if len(found) < len(stripped) or len(found) < minimum:
        raise InvalidArgument(name, values, f"at least {minimum} texts or whole numbers, none of them empty")
    if len(set(found)) < len(found):
        twice = next(text for text in found if found.count(text) > 1)
        raise InvalidArgument(name, twice, "each only once")
    return found
