r"""Regular expressions that every engine reads alike, and that no text can make slow or fail.

A pattern is a sequence of characters and of sets of characters, each with a quantifier, between optional anchors; or
several such sequences with | between them. It is parsed here, and written anew for each engine: \d as [0-9], the end of
a text as the engine writes it. What engines read differently is refused: groups, lazy quantifiers, back-references,
word boundaries, the dot of some options.

**No text makes a pattern slow.** Engines that backtrack (Java's, on Spark) try every way in which quantifiers can share
the characters of a text. Here a quantified item shares no character with what may follow it, so there is one way only.
One exception is allowed, if the pattern begins with ^. On the first `SEARCHED` characters of a text, that is at most a
few million steps.

**All engines find the same match.** They agree where a match begins. Without exceptions there is one way to go on from
there, so leftmost-first and leftmost-longest rules agree. Patterns with an exception, or with |, only say whether they
match.

>>> pattern = parse_pattern(r"^[ab]+-x{2,3}$")
>>> pattern.text(end=r"\z"), pattern.is_unique, pattern.shortest
('\\A[ab]+\\-x{2,3}\\z', True, 4)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SEARCHED = 2_000
"""How many characters of a text are searched, from its beginning."""

_LONGEST_PATTERN, _MOST_REPEATS = 200, 200
_CLASSES = {
    "d": frozenset("0123456789"),
    "w": frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"),
    "s": frozenset(" \t\n\r\f\v"),
}
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_REPEATS = re.compile(r"\{(\d{1,3})(?:(,)(\d{1,3})?)?\}", re.ASCII)


class PatternRefused(ValueError):
    """A pattern is not one of those that every engine reads alike. Its text says why."""


@dataclass(frozen=True, slots=True)
class Item:
    """A set of characters with its quantifier.

    Attributes:
        characters: The characters; those that do not match, if ``negated``.
        negated: Whether all other characters match.
        least: How many follow each other, at least.
        most: How many, at most; None for any number.
    """

    characters: frozenset[str]
    negated: bool = False
    least: int = 1
    most: int | None = 1

    @property
    def is_fixed(self) -> bool:
        """Whether it always takes the same number of characters."""
        return self.least == self.most

    def meets(self, other: Item) -> bool:
        """Return whether a character matches both."""
        if self.negated and other.negated:
            return True
        if self.negated or other.negated:
            listed, negated = (other, self) if self.negated else (self, other)
            return not listed.characters <= negated.characters
        return not self.characters.isdisjoint(other.characters)

    def text(self) -> str:
        """Return it as every engine reads it."""
        if len(self.characters) == 1 and not self.negated:
            body = _escaped(next(iter(self.characters)))
        else:
            body = f"[{'^' if self.negated else ''}{''.join(_escaped(c) for c in sorted(self.characters))}]"
        if (self.least, self.most) == (1, 1):
            return body
        short = {pair: sign for sign, pair in _QUANTIFIERS.items()}.get((self.least, self.most))
        if short is not None:
            return body + short
        if self.is_fixed:
            return f"{body}{{{self.least}}}"
        return f"{body}{{{self.least},{'' if self.most is None else self.most}}}"


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items between anchors."""

    items: tuple[Item, ...]
    from_start: bool = False
    to_end: bool = False

    @property
    def num_ambiguous(self) -> int:
        """How many quantified items share a character with what may follow them."""
        return sum(
            any(map(item.meets, self._followers(index))) for index, item in enumerate(self.items) if _varies(item)
        )

    def _followers(self, index: int) -> list[Item]:
        """Return the items that may follow one: up to the first that takes a character in any case."""
        followers = []
        for item in self.items[index + 1 :]:
            followers.append(item)
            if item.least > 0:
                break
        return followers


@dataclass(frozen=True, slots=True)
class Pattern:
    """A checked pattern: it matches where one of its sequences does."""

    sequences: tuple[Sequence, ...]

    @property
    def is_unique(self) -> bool:
        """Whether all engines find the same match, and not only whether there is one."""
        return len(self.sequences) == 1 and self.sequences[0].num_ambiguous == 0

    @property
    def shortest(self) -> int:
        """The least number of characters of a match."""
        return min(sum(item.least for item in sequence.items) for sequence in self.sequences)

    def whole(self) -> Pattern:
        """Return the pattern that has to match a whole text."""
        return Pattern(tuple(Sequence(sequence.items, True, True) for sequence in self.sequences))

    def text(self, *, end: str) -> str:
        """Return the pattern for an engine; ``end`` is how it writes the end of a text."""
        return "|".join(
            ("\\A" if sequence.from_start else "")
            + "".join(item.text() for item in sequence.items)
            + (end if sequence.to_end else "")
            for sequence in self.sequences
        )


def parse_pattern(text: str, *, ignore_case: bool = False, whole: bool = False) -> Pattern:
    """Return a pattern that every engine reads alike.

    Args:
        text: The pattern.
        ignore_case: Whether ASCII letters match in either case.
        whole: Whether it has to match a whole text.

    Raises:
        PatternRefused: If engines differ about it, or if a text could make it slow.
    """
    if not 0 < len(text) <= _LONGEST_PATTERN or "\x00" in text:
        raise PatternRefused(f"a pattern has 1 to {_LONGEST_PATTERN} characters")
    pattern = Pattern(tuple(_PatternParser(part, ignore_case).sequence() for part in _alternatives(text)))
    pattern = pattern.whole() if whole else pattern
    for sequence in pattern.sequences:
        if sequence.num_ambiguous > int(sequence.from_start):
            raise PatternRefused(
                "a long text could make it slow: a repeated item shares characters with what follows it"
            )
    return pattern


def _alternatives(text: str) -> list[str]:
    """Return the parts between |, which stands for itself in a set and after a backslash."""
    parts, inside, index = [""], False, 0
    while index < len(text):
        piece = text[index : index + 2] if text[index] == "\\" else text[index]
        inside = piece == "[" or (inside and piece != "]")
        if piece == "|" and not inside:
            parts.append("")
        else:
            parts[-1] += piece
        index += len(piece)
    return parts


@dataclass(slots=True)
class _PatternParser:
    """Reads one sequence."""

    rest: str
    ignore_case: bool

    def sequence(self) -> Sequence:
        """Return the sequence."""
        from_start, items = self._take("^"), []
        while self.rest and self.rest != "$":
            items.append(self._quantified(self._set()))
        to_end = self._take("$")
        if not items:
            raise PatternRefused("a part of it is empty")
        if sum(item.most or item.least for item in items) > _MOST_REPEATS:
            raise PatternRefused(f"its repeats add up to more than {_MOST_REPEATS}")
        return Sequence(tuple(items), from_start, to_end)

    def _take(self, text: str) -> bool:
        """Take a text from the beginning of the rest, if it is there."""
        if not self.rest.startswith(text):
            return False
        self.rest = self.rest[len(text) :]
        return True

    def _next(self) -> str:
        """Take the next character."""
        if not self.rest:
            raise PatternRefused("it ends too early")
        first, self.rest = self.rest[0], self.rest[1:]
        return first

    def _set(self) -> Item:
        """Return the next set of characters, without its quantifier."""
        first = self._next()
        if first == "[":
            return self._bracket()
        if first == "\\":
            return Item(self._in_either_case(self._escape()))
        if first == ".":
            raise PatternRefused("engines differ about whether . is a line break: write [^\\n]")
        if first in "()|*+?{}^$]":
            raise PatternRefused(f"{first} is not supported here: no groups, and anchors at the ends only")
        return Item(self._in_either_case(frozenset(first)))

    def _bracket(self) -> Item:
        """Return a set in brackets."""
        negated, characters = self._take("^"), set[str]()
        while not self._take("]"):
            first = self._next()
            if first == "[":
                raise PatternRefused("write \\[ within brackets")
            low = self._escape() if first == "\\" else frozenset(first)
            if self.rest.startswith("-") and not self.rest.startswith("-]"):
                self._next()
                second = self._next()
                high = self._escape() if second == "\\" else frozenset(second)
                characters |= _range(low, high)
            else:
                characters |= low
        if not characters:
            raise PatternRefused("a set is empty")
        return Item(self._in_either_case(frozenset(characters)), negated)

    def _escape(self) -> frozenset[str]:
        """Return the characters that an escape stands for."""
        letter = self._next()
        if letter in _CLASSES:
            return _CLASSES[letter]
        if letter in "nrtf":
            return frozenset({"n": "\n", "r": "\r", "t": "\t", "f": "\f"}[letter])
        if letter.isalnum() or not letter.isascii():
            raise PatternRefused(f"\\{letter} means different things to different engines")
        return frozenset(letter)

    def _quantified(self, item: Item) -> Item:
        """Return an item with the quantifier that follows."""
        least, most = 1, 1  # type: tuple[int, int | None]
        if self.rest[:1] in _QUANTIFIERS and self.rest:
            least, most = _QUANTIFIERS[self._next()]
        elif (match := _REPEATS.match(self.rest)) is not None:
            self.rest = self.rest[match.end() :]
            least = int(match[1])
            most = int(match[3]) if match[3] else None if match[2] else least
        if self.rest[:1] and self.rest[0] in "*+?{":
            raise PatternRefused("lazy and possessive quantifiers are not supported")
        if most is not None and not 0 < most >= least:
            raise PatternRefused("a quantifier allows nothing")
        return Item(item.characters, item.negated, least, most)

    def _in_either_case(self, characters: frozenset[str]) -> frozenset[str]:
        """Return characters with those of the other case, if case does not matter."""
        if not self.ignore_case:
            return characters
        if any(not character.isascii() and character.isalpha() for character in characters):
            raise PatternRefused("engines differ about the case of letters other than a to z")
        return frozenset(either for c in characters for either in (c.lower(), c.upper()))


def _varies(item: Item) -> bool:
    """Return whether an item can take different numbers of characters."""
    return not item.is_fixed


def _range(low: frozenset[str], high: frozenset[str]) -> set[str]:
    """Return the characters of a range such as a-z."""
    (first, *more), (last, *others) = low, high
    if more or others or not (first + last).isascii() or first > last:
        raise PatternRefused("a range goes from one ASCII character up to another")
    return {chr(code) for code in range(ord(first), ord(last) + 1)}


def _escaped(character: str) -> str:
    """Return a character that stands for itself, in a set and elsewhere."""
    is_plain = character.isalnum() or character in "_ \t\n\r\f\v" or not character.isascii()
    return character if is_plain else f"\\{character}"
