"""The secret keys of a run. Samples and noise are functions of a key, a purpose and a step."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

_KEY_BYTES = 32  # as long as the SHA-256 digests that are derived from it


class RunKeys:
    """The keys of a run, by the first step that uses each. Every resumption adds one.

    Attributes:
        pairs: Pairs of a first step and its key, in order.
    """

    def __init__(self, pairs: Iterable[tuple[int, bytes]]) -> None:
        """Take the pairs of a first step and its key."""
        self.pairs = [(first, key) for first, key in pairs]

    def derive(self, purpose: str, step: int) -> bytes:
        """Return the key for a purpose in a step: SHA-256 of the step's key and the purpose."""
        key = next(key for first, key in reversed(self.pairs) if first <= step)
        return hashlib.sha256(key + purpose.encode()).digest()

    def resumed(self, steps_taken: int, *, renew: bool) -> RunKeys:
        """Return the keys of a run that continues after ``steps_taken`` steps.

        Args:
            steps_taken: The number of steps that were taken.
            renew: Whether later steps get a new key; False in tests only. Two runs that continue from one state under
                one key would share their noise, and the difference of their weights would be released without any.
        """
        earlier = [(first, key) for first, key in self.pairs if first < max(steps_taken, 1)]
        if not renew:
            return RunKeys(earlier)
        # Earlier keys stay, unless no step has used them: correlated noise needs the noise of earlier steps again.
        return RunKeys([*(earlier if steps_taken else []), (steps_taken, os.urandom(_KEY_BYTES))])
