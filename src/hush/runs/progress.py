"""Progress: how a run reports to the caller.

The command line shows a bar; in a library, you implement `Progress` yourself.
"""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Follows a run. Pass an object with these two methods to `train`, `resume`, `tune` or `audit`.

    >>> class Printer:
    ...     def say(self, line: str) -> None:
    ...         print(line)
    ...     def show(self, stage: str, done: int, total: int, note: str = "") -> None:
    ...         print(f"{stage}: {done} of {total}")
    >>> progress: Progress = Printer()
    >>> progress.show("training", 3, 40)
    training: 3 of 40
    """

    def say(self, line: str) -> None:
        """Show a line of text."""

    def show(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Show the progress of a stage."""


class Silence:
    """Shows nothing: the default."""

    def say(self, line: str) -> None:
        """Show nothing."""

    def show(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Show nothing."""
