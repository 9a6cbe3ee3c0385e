"""Randomness that protects nobody: a generator, or the seed of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.randomness import TestSource, public_generator


def test_a_seed_gives_numpys_own_stream() -> None:
    for seed in (0, 1, 2**70, np.int64(3)):
        expected = np.random.default_rng(int(seed)).random(5)
        assert np.array_equal(public_generator(seed).random(5), expected)


def test_a_generator_is_used_on_and_not_copied() -> None:
    rng = np.random.default_rng(1)
    assert public_generator(rng) is rng


@pytest.mark.parametrize("rng", [-1, True, None, 0.5, "0", np.random.RandomState(0), TestSource(0)])
def test_anything_else_is_refused(rng: Any) -> None:
    with pytest.raises(InvalidArgument, match="^rng=.*expected an integer >= 0"):
        public_generator(rng)
