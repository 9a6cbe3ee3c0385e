"""The kinds of columns in a schema, with their declared ranges or values."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from hush.errors import InvalidArgument, check_count

# The characters that DuckDB's trim removes: Unicode's category Zs. Declared values are trimmed of these and nothing
# else. A learned value must match the data exactly, and must differ from other values as it does there.
SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
WORD = re.compile(r"[^\W_]+")
_MOST_HASHES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric:
    """A column of numbers, scaled from [lower, upper] to [-1, 1].

    >>> Numeric(lower=0, upper=120).complete, Numeric().complete
    (True, False)

    Attributes:
        lower: The lower bound; None to learn it privately.
        upper: The upper bound; None to learn it privately.
    """

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        """Check that the declared bounds are finite, with room between them."""
        object.__setattr__(self, "lower", _checked_bound("lower", self.lower))
        object.__setattr__(self, "upper", _checked_bound("upper", self.upper))
        # Halves, because the difference of two finite bounds may be infinite.
        if self.lower is not None and self.upper is not None and not self.upper / 2 - self.lower / 2 > 0:
            raise InvalidArgument("upper", self.upper, f"more than lower={self.lower:.3g}")

    @property
    def complete(self) -> bool:
        """Whether nothing is left to learn."""
        return self.lower is not None and self.upper is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Date(Numeric):
    """A column of dates or moments: days since 1970, and where each lies in its year, its week and its day.

    The bounds are in days since 1970. The other parts need none: they are sines and cosines.

    >>> Date(lower=0, upper=20_000).complete
    True

    Attributes:
        lower: The first day; None to learn it privately.
        upper: The last day; None to learn it privately.
    """


def written(column: Numeric, value: float) -> str:
    """Return a number of a column as people write it: a date of the years 1 to 9999, to the minute, or six digits.

    >>> written(Date(), 17_408), written(Date(), 0.5), written(Date(), 1e9), written(Numeric(), 17_408.25)
    ('2017-08-30', '1970-01-01 12:00', '1e+09', '17408.2')
    """
    if isinstance(column, Date):
        try:
            moment = datetime(1970, 1, 1) + timedelta(minutes=round(value * 24 * 60))
        except (OverflowError, ValueError):  # there is no such year
            return f"{value:.6g}"
        return moment.isoformat(" ", "minutes").removesuffix(" 00:00")
    return f"{value:.6g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A column with a few distinct values, encoded as one input per value and one for all other values.

    >>> Category(values=("nurse", "cook"))
    Category(values=('nurse', 'cook'))

    Attributes:
        values: The values; None to learn them privately.
    """

    values: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check that the values are distinct strings."""
        if self.values is not None:
            object.__setattr__(self, "values", distinct_texts("values", self.values, minimum=0))

    @property
    def complete(self) -> bool:
        """Whether nothing is left to learn."""
        return self.values is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A column of text, encoded as counts of the words in a public vocabulary.

    >>> Text(vocabulary=("good", "bad")).complete
    True

    Attributes:
        vocabulary: The words, in lower case, of letters and digits only. A vocabulary is never learned.
    """

    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check that every word is one that text can be split into."""
        words = distinct_texts("vocabulary", self.vocabulary)
        for word in words:
            if not WORD.fullmatch(word) or word != word.lower():
                raise InvalidArgument("vocabulary", word, "single words in lower case, of letters and digits")
        object.__setattr__(self, "vocabulary", words)

    @classmethod
    def from_file(cls, path: str | Path) -> Text:
        """Read a vocabulary from a UTF-8 file with one word per line."""
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError):
            raise InvalidArgument("vocabulary", str(path), "a readable UTF-8 file with one word per line") from None
        words = dict.fromkeys(line.strip().lower() for line in lines if line.strip())
        return cls(vocabulary=tuple(words))

    @property
    def complete(self) -> bool:
        """Whether nothing is left to learn: always."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedText:
    """A column of text whose words are counted by a public hash. Nothing is learned, and no word is released.

    >>> HashedText().complete, HashedText(num_features=256).num_features
    (True, 256)

    Attributes:
        num_features: How many inputs it becomes. Words that share a hash share an input.
    """

    num_features: int = 64

    def __post_init__(self) -> None:
        """Check the number."""
        if check_count("num_features", self.num_features) > _MOST_HASHES:
            raise InvalidArgument("num_features", self.num_features, f"at most {_MOST_HASHES}")

    @property
    def complete(self) -> bool:
        """Whether nothing is left to learn: always."""
        return True


@dataclass(frozen=True, slots=True)
class Ignore:
    """A column that is not used.

    >>> Ignore().complete
    True
    """

    @property
    def complete(self) -> bool:
        """Whether nothing is left to learn: always."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The range and the shape of images. Pixel values from ``lower`` to ``upper`` are scaled to [0, 1].

    >>> Images(lower=0, upper=255, shape=(1, 28, 28)).shape
    (1, 28, 28)

    Attributes:
        lower: The smallest pixel value.
        upper: The largest pixel value.
        shape: (channels, height, width); None before it is known.
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


Column: TypeAlias = Numeric | Category | Text | HashedText | Ignore


def _checked_bound(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < math.inf:
        raise InvalidArgument(name, value, "a finite number, or null to learn it privately")
    try:
        return float(value)
    except OverflowError:  # an integer beyond the range of floats
        raise InvalidArgument(name, value, "a finite number") from None


def distinct_texts(name: str, values: Any, minimum: int = 1) -> tuple[str, ...]:
    """Return distinct, non-empty strings, trimmed as the values of the data are.

    Integers are allowed: the data are compared as text, without spaces around it.

    Args:
        name: The argument's name, for messages.
        values: A list or tuple of strings and integers.
        minimum: How many there must be.
    """
    if isinstance(values, str) or not isinstance(values, (tuple, list)):
        raise InvalidArgument(name, values, "a list of strings")
    stripped = [str(value).strip(SPACES) if _is_text_or_integer(value) else "" for value in values]
    texts = tuple(text for text in stripped if text)
    if len(texts) < len(stripped) or len(texts) < minimum:
        raise InvalidArgument(name, values, f"at least {minimum} strings or integers, none of them empty")
    if len(set(texts)) < len(texts):
        repeated = next(text for text in texts if texts.count(text) > 1)
        raise InvalidArgument(name, repeated, "each value only once")
    return texts


def _is_text_or_integer(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)
