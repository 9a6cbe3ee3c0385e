"""What is missing before a table can be used, all in one message, with the arguments that answer it."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from hush.errors import HushError

_INTRODUCTION = "before anything is spent, {} to settle:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that is missing or wrong.

    Attributes:
        text: What it is, and what would settle it.
        add: The arguments to add to the command.
        wrong: A name in the command that does not exist; None if nothing is to be replaced.
        right: The name to put in its place; None to leave the argument out.
    """

    text: str
    add: tuple[str, ...] = ()
    wrong: str | None = None
    right: str | None = None


class OpenQuestions(HushError):
    """All that has to be settled before a run. Nothing was spent: it follows from public facts alone.

    >>> questions = [Question(text="column 'id' looks like an id", add=("--ignore", "id"))]
    >>> print(OpenQuestions(questions).in_words(["train", "t.csv"]))
    before anything is spent, 1 thing to settle:
      - column 'id' looks like an id
    This command settles it: hush train t.csv --ignore id
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        """Take the questions."""
        self.questions = tuple(questions)
        added = [word for question in questions for word in question.add]
        advice = f"\nAdd: {shlex.join(added)}" if added else ""
        super().__init__(self._listed() + advice)

    def in_words(self, command: Sequence[str]) -> str:
        """Return the message for someone who typed a command, with the command that would work.

        Args:
            command: The words after ``hush``.
        """
        what = "it" if len(self.questions) == 1 else "them"
        return f"{self._listed()}\nThis command settles {what}: {shlex.join(['hush', *self.corrected(command)])}"

    def corrected(self, command: Sequence[str]) -> list[str]:
        """Return a command with the answers."""
        words = list(command)
        for question in self.questions:
            if question.wrong is not None:
                words = _replaced(words, question.wrong, question.right)
        return _consistent([*words, *(word for question in self.questions for word in question.add)])

    def _listed(self) -> str:
        count = len(self.questions)
        things = "1 thing" if count == 1 else f"{count} things"
        return "\n".join([_INTRODUCTION.format(things), *(f"  - {question.text}" for question in self.questions)])


def _replaced(words: Sequence[str], wrong: str, right: str | None) -> list[str]:
    """Return words with another name in place of a wrong one; without another name, its argument is left out.

    >>> _replaced(["t.csv", "--bounds", "agee=0:9", "--ignore", "x"], "agee", "age")
    ['t.csv', '--bounds', 'age=0:9', '--ignore', 'x']
    >>> _replaced(["t.csv", "--ignore", "x"], "x", None)
    ['t.csv']
    >>> _replaced(["t.csv", "--target", "a,x"], "x", None)
    ['t.csv', '--target', 'a']
    """
    result: list[str] = []
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        is_argument = position > 0 and words[position - 1].startswith("--")
        if not is_argument or (name != wrong and wrong not in word.split(",")):
            result.append(word)
            continue
        if equals and name == wrong:
            replaced = "" if right is None else f"{right}={value}"
        else:
            replaced = ",".join(item for item in (right if item == wrong else item for item in word.split(",")) if item)
        if replaced:
            result.append(replaced)
        else:
            result.pop()
    return result


def _consistent(words: Sequence[str]) -> list[str]:
    """Return words that ignore a column once, and neither the unit nor a category with values.

    Two names may be corrected to the same one. Flags win over each other in a fixed order, in which --ignore is last.

    >>> _consistent(["--ignore", "a", "--ignore", "who", "--ignore", "a", "--unit", "who"])
    ['--ignore', 'a', '--unit', 'who']
    """
    pairs = list(itertools.pairwise(words))
    used = {value for flag, value in pairs if flag == "--unit"}
    used |= {value.partition("=")[0] for flag, value in pairs if flag == "--category" and "=" in value}
    result: list[str] = []
    for word in words:
        if result and result[-1] == "--ignore" and word in used:
            result.pop()
            continue
        if result and result[-1] == "--ignore":
            used.add(word)
        result.append(word)
    return result
