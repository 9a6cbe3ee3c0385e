"""Predictions by a vote over noisy copies of the input, which no small change can turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit.bounds.counts import Side, clopper_pearson
from hush.errors import InvalidArgument, check_count, check_fraction, check_positive
from hush.randomness import RandomSource, source_or_default, standard_normal
from hush.stability.radius import gaussian_radius

_MOST = 2.0**20
Radius = Callable[[float, float, float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What is proven about one prediction.

    Attributes:
        label: The class; None where the votes do not tell.
        radius: No change of the input of smaller L2 norm leads to another class.
        lower: What the probability of the class under noise is at least.
        confidence: Of all of it: votes are a sample.
    """

    label: int | None
    radius: float
    lower: float
    confidence: float

    def withstands(self, norm: float) -> bool:
        """Say whether the class stays for every change of an L2 norm below this."""
        return self.label is not None and norm <= self.radius


class SmoothedClassifier:
    """A classifier of noisy inputs, asked many times: its most frequent answer is certified to be stable.

    Train the classifier on inputs with the same noise, or it will not know what it sees. More noise certifies larger
    radii, and costs accuracy. It is differential privacy with the roles changed: the record is a pixel, and what must
    not depend on it much is a prediction.

    Guarantee:
        With the stated confidence, for each input by itself: the smoothed classifier, that is the class which
        ``classify`` returns with the largest probability under noise, is the same for all inputs within the radius.

    Assumes:
        ``classify`` answers for each input by itself, the same whenever it is asked (the caller's duty). Noise has 24
        bits and sums have 53, where theorems have real numbers: inputs are not larger than some 2^20 times the noise
        (checked here: larger ones are refused).

    References:
        Lecuyer et al. 2019 (PixelDP); Cohen, Rosenfeld & Kolter 2019, CERTIFY (a class is guessed from some samples,
        and its probability is bounded by Clopper & Pearson 1934 from others).

    Args:
        classify: From an array of inputs to a class number for each; for a torch model such as
            ``lambda x: model(torch.from_numpy(x)).argmax(1).numpy()``.
        num_classes: How many classes there are.
        noise_stddev: Of the Gaussian noise on each number of the input, in the input's units.
        batch_size: How many noisy copies are classified at once.
        source: Of noise, for tests.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> smoothed = SmoothedClassifier(
    ...     lambda x: (x[:, 0] > 0).astype(int), num_classes=2, noise_stddev=0.5, source=TestSource(1)
    ... )
    >>> found = smoothed.certify(np.array([1.0, 0.0], dtype=np.float32), num_samples=10_000)
    >>> found.label, 0.9 < found.radius < 1.0  # the true one is 1
    (1, True)
    """

    def __init__(
        self,
        classify: Callable[[Any], Any],
        *,
        num_classes: int,
        noise_stddev: float,
        batch_size: int = 1000,
        source: RandomSource | None = None,
    ) -> None:
        if not callable(classify):
            raise InvalidArgument("classify", classify, "a function from inputs to class numbers")
        self.classify = classify
        self.num_classes = check_count("num_classes", num_classes)
        self.noise_stddev = check_positive("noise_stddev", noise_stddev)
        self.batch_size = check_count("batch_size", batch_size)
        self._source = source_or_default(source)

    def certify(
        self,
        example: Any,
        *,
        num_samples: int = 1000,
        num_guesses: int = 100,
        confidence: float = 0.999,
        radius: Radius = gaussian_radius,
    ) -> Certificate:
        """Predict the class of one input, and say how far it can be relied on.

        Args:
            example: One input, without a dimension for batches.
            num_samples: Noisy copies for the bound.
            num_guesses: Others, to find the class.
            confidence: Of the certificate.
            radius: `gaussian_radius`, or `pixeldp_radius` for comparison.
        """
        wrong = 1 - check_fraction("confidence", confidence)
        guess = int(self.votes(example, num_guesses).argmax())
        count = int(self.votes(example, num_samples)[guess])
        lower = float(clopper_pearson(count, num_samples, wrong, Side.LOWER))
        if not lower > 0.5:
            return Certificate(label=None, radius=0.0, lower=lower, confidence=confidence)
        # All other classes share what is left.
        found = radius(lower, 1 - lower, self.noise_stddev)
        return Certificate(label=guess, radius=found, lower=lower, confidence=confidence)

    def predict(self, example: Any, *, num_samples: int = 100) -> int:
        """Return the class with the most votes, without a proof."""
        return int(self.votes(example, num_samples).argmax())

    def votes(self, example: Any, num_samples: int) -> NDArray[np.int64]:
        """Return how often each class was the answer for a noisy copy of one input."""
        given = np.asarray(example)
        exact, kind = given.astype(np.float64), given.dtype if given.dtype.kind == "f" else np.dtype(np.float32)
        if not bool((np.abs(exact) <= self.noise_stddev * _MOST).all()):
            raise InvalidArgument("example", "an array", "finite numbers, at most 2^20 times the noise")
        counts = np.zeros(self.num_classes, dtype=np.int64)
        for size in _parts(check_count("num_samples", num_samples), self.batch_size):
            noise = standard_normal(self._source, size * max(exact.size, 1)).reshape(size, *exact.shape)
            # Rounded once, after the sum: then it is a part of what classifies.
            noisy = (exact + noise.astype(np.float64) * self.noise_stddev).astype(kind)
            counts += self._counted(self.classify(noisy), size)
        return counts

    def _counted(self, answers: Any, size: int) -> NDArray[np.int64]:
        found = np.asarray(answers)
        if found.shape != (size,) or found.dtype.kind not in "iu":
            raise InvalidArgument("classify", "its answer", "an integer for each input")
        if not bool(((found >= 0) & (found < self.num_classes)).all()):
            raise InvalidArgument("classify", "its answer", f"integers from 0 to {self.num_classes - 1}")
        return np.bincount(found, minlength=self.num_classes)


def _parts(total: int, size: int) -> Iterator[int]:
    yield from (min(size, total - start) for start in range(0, total, size))
