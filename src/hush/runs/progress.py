"""What a run tells whoever waits for it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Shows how far a run is."""

    def say(self, line: str) -> None:
        """Show a line."""

    def show(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Show how much of a stage is done."""


class Silence:
    """Shows nothing."""

    def say(self, line: str) -> None:
        """Show nothing."""

    def show(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Show nothing."""
