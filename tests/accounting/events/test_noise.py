"""Noise events: values of plain numbers, with the noise relative to the sensitivity."""

from __future__ import annotations

import numpy as np
import pytest

from hush import accounting as hush
from hush.accounting import Event, GaussianEvent
from hush.accounting.events import DiscreteGaussianEvent, DiscreteLaplaceEvent
from hush.errors import InvalidArgument


def test_numpy_numbers_are_numbers() -> None:
    assert GaussianEvent(np.float32(2.0)) == GaussianEvent(2.0)
    assert hush.SelfComposedEvent(GaussianEvent(np.float64(2.0)), np.int64(3)) == hush.SelfComposedEvent(
        GaussianEvent(2.0), 3
    )
    assert Event.from_json(GaussianEvent(np.float64(2.0)).to_json()) == GaussianEvent(2.0)


@pytest.mark.parametrize("kind", [DiscreteGaussianEvent, DiscreteLaplaceEvent])
def test_integer_noise_is_limited_relative_to_the_sensitivity(kind: type[Event]) -> None:
    kind(1e-2, 10)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgument, match="/ sensitivity=0.0001"):
        kind(1e-2, 100)  # type: ignore[call-arg]
