"""A source that begins with scripted words, for cases that would occur once in 10^10 draws."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hush.randomness import TestSource


class ScriptedSource(TestSource):
    """Returns the words of a script, then test randomness, and counts the words after the script."""

    __test__ = False

    def __init__(self, script: Iterable[int], seed: int | str = "after the script") -> None:
        super().__init__(seed)
        self.script = list(script)
        self.improvised = 0

    def word(self) -> int:
        if self.script:
            return self.script.pop(0)
        self.improvised += 1
        return super().word()

    def words(self, count: int) -> NDArray[np.uint64]:
        scripted = [self.script.pop(0) for _ in range(min(count, len(self.script)))]
        self.improvised += count - len(scripted)
        return np.concatenate([np.array(scripted, dtype=np.uint64), super().words(count - len(scripted))])
