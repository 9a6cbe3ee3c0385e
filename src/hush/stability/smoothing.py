"""Randomised smoothing: predict by a vote over noisy copies of the input, and certify that the vote is stable.

example > noisy copies > classes (your classifier) > votes > lower bound on the winner's share > radius
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit import Side, clopper_pearson
from hush.errors import InvalidArgument, check_count, check_fraction, check_positive
from hush.randomness import RandomSource, source_or_default, standard_normal
from hush.stability.radius import InputNorm, gaussian_radius

_MAX_RATIO = 2.0**20  # of inputs to noise: beyond this, the noise loses digits
Radius = Callable[[float, float, float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certified prediction.

    >>> certificate = Certificate(label=1, radius=0.5, lower=0.9, confidence=0.999)
    >>> certificate.withstands(0.4), certificate.withstands(0.6)
    (True, False)

    Attributes:
        label: The class; None if the vote is too close.
        radius: No change of the input with a norm below this changes the class.
        lower: A lower bound on the probability, or the expected score, of the class under noise.
        confidence: The confidence of the certificate. It is statistical, because the votes are a sample.
        norm: The norm of changes.
    """

    label: int | None
    radius: float
    lower: float
    confidence: float
    norm: InputNorm = InputNorm.L2

    def withstands(self, norm: float) -> bool:
        """Return whether the class is certified against changes of this norm."""
        return self.label is not None and norm <= self.radius


class SmoothedClassifier:
    """A classifier that predicts by a vote over noisy copies of an input, with certified stability.

    Train the classifier on inputs with the same noise; otherwise it is inaccurate on noisy inputs. More noise certifies
    larger radii and costs accuracy. This is differential privacy with other roles: the record is a pixel, and the
    output that must not depend on it is the prediction.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> smoothed = SmoothedClassifier(
    ...     lambda x: (x[:, 0] > 0).astype(int), num_classes=2, noise_stddev=0.5, source=TestSource(1)
    ... )
    >>> certificate = smoothed.certify(np.array([1.0, 0.0], dtype=np.float32), num_samples=10_000)
    >>> certificate.label, 0.9 < certificate.radius < 1.0  # the true radius is 1
    (1, True)

    Args:
        classify: A function from an array of inputs to one class number per input. For a torch model, use something
            like ``lambda x: model(torch.from_numpy(x)).argmax(1).numpy()``.
        num_classes: The number of classes.
        noise_stddev: The standard deviation of the Gaussian noise on each number of the input, in the input's units.
        batch_size: The number of noisy copies to classify at once.
        source: The source of noise. Pass a TestSource in tests only.

    Guarantee:
        With the stated confidence, for each input separately: the smoothed classifier predicts the same class for all
        inputs within the radius. The smoothed classifier is the class that ``classify`` returns with the largest
        probability under noise.

    Assumes:
        ``classify`` treats each input separately and always gives the same answer (the caller's duty). The theorems use
        real numbers, but noise has 24 bits and sums have 53, so inputs may be at most 2^20 times the noise (checked
        here).

    References:
        Lecuyer et al. 2019 (PixelDP); Cohen, Rosenfeld & Kolter 2019, CERTIFY (some samples choose the class, others
        bound its probability by Clopper & Pearson 1934).
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
        """Predict the class of one input, and certify a radius.

        Args:
            example: One input, without a batch dimension.
            num_samples: The number of noisy copies for the bound.
            num_guesses: The number of other noisy copies, which choose the class.
            confidence: The confidence of the certificate.
            radius: `gaussian_radius`, or `hush.lab.radius.pixeldp_radius` for comparison.

        Returns:
            The certificate. Its label is None if the class does not have a certified majority.
        """
        error = 1 - check_fraction("confidence", confidence)
        # Separate samples choose the class and bound its probability: the choice then needs no correction.
        label = int(self.votes(example, num_guesses).argmax())
        count = int(self.votes(example, num_samples)[label])
        lower = float(clopper_pearson(count, num_samples, error, Side.LOWER))
        if not lower > 0.5:
            return Certificate(label=None, radius=0.0, lower=lower, confidence=confidence)
        # Every other class has a probability of at most 1 - lower.
        certified = radius(lower, 1 - lower, self.noise_stddev)
        return Certificate(label=label, radius=certified, lower=lower, confidence=confidence)

    def predict(self, example: Any, *, num_samples: int = 100) -> int:
        """Return the class with the most votes, without a certificate."""
        return int(self.votes(example, num_samples).argmax())

    def votes(self, example: Any, num_samples: int) -> NDArray[np.int64]:
        """Return how many noisy copies of one input were assigned to each class."""
        array = np.asarray(example)
        exact, dtype = array.astype(np.float64), array.dtype if array.dtype.kind == "f" else np.dtype(np.float32)
        if not bool((np.abs(exact) <= self.noise_stddev * _MAX_RATIO).all()):
            raise InvalidArgument("example", "an array", "finite numbers, at most 2^20 times the noise")
        counts = np.zeros(self.num_classes, dtype=np.int64)
        for size in _batch_sizes(check_count("num_samples", num_samples), self.batch_size):
            noise = standard_normal(self._source, size * max(exact.size, 1)).reshape(size, *exact.shape)
            # Rounded once, after the addition: the rounding then counts as part of the classifier.
            noisy = (exact + noise.astype(np.float64) * self.noise_stddev).astype(dtype)
            counts += self._count_votes(self.classify(noisy), size)
        return counts

    def _count_votes(self, answers: Any, size: int) -> NDArray[np.int64]:
        labels = np.asarray(answers)
        if labels.shape != (size,) or labels.dtype.kind not in "iu":
            raise InvalidArgument("classify", "its answer", "an integer for each input")
        if not bool(((labels >= 0) & (labels < self.num_classes)).all()):
            raise InvalidArgument("classify", "its answer", f"integers from 0 to {self.num_classes - 1}")
        return np.bincount(labels, minlength=self.num_classes)


def _batch_sizes(total: int, size: int) -> Iterator[int]:
    yield from (min(size, total - start) for start in range(0, total, size))
