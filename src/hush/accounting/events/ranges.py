"""The ranges of numbers that events accept, because accountants can analyse them in double precision."""

from __future__ import annotations

from hush.errors import InvalidArgument, check_count, check_positive

# The smallest and largest ratio of noise to sensitivity that can be analysed in double precision. Below, the
# mean loss 1 / (2 sigma^2) of a Gaussian exceeds 500000: nothing is protected. Above, two neighbours' distributions
# differ by about 0.4 / sigma in total variation, to which the rounding errors of many steps, 2^-53 each, come close.
_MIN_NOISE, _MAX_NOISE = 1e-3, 1e6
_ROUNDING = "Outside, rounding errors dominate"


def check_noise(name: str, value: float) -> float:
    """Check that a ratio of noise to sensitivity is within the range that accountants can analyse."""
    number = check_positive(name, value)
    if not _MIN_NOISE <= number <= _MAX_NOISE:
        raise InvalidArgument(name, value, f"between {_MIN_NOISE:.3g} and {_MAX_NOISE:.3g}", _ROUNDING)
    return number


def check_size(name: str, value: int, *, minimum: int = 1, maximum: int = 10**12) -> int:
    """Check that an integer is within the range that accountants can analyse."""
    number = check_count(name, value, minimum=minimum)
    if not number <= maximum:
        raise InvalidArgument(name, value, f"an integer <= {maximum:.3g}", _ROUNDING)
    return number


def check_loss(name: str, value: float) -> float:
    """Check that an epsilon is within the range that accountants can analyse."""
    number = check_positive(name, value)
    # Laplace noise of scale b on a sensitivity of 1 has epsilon = 1 / b (Dwork et al. 2006): the same range, inverted.
    if not 1 / _MAX_NOISE <= number <= 1 / _MIN_NOISE:
        limits = f"between {1 / _MAX_NOISE:.3g} and {1 / _MIN_NOISE:.3g}"
        advice = "Below that range, rounding errors dominate; above it, nothing is protected"
        raise InvalidArgument(name, value, limits, advice)
    return number
