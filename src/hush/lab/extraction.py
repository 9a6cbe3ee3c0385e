"""Model extraction: copy a model by querying it.

- `extract_linear` copies a linear model exactly, with one query more than it has features.
- `knockoff` trains a student on the victim's answers to the attacker's inputs, and returns an `Extraction`.
- `Softmax` is the linear model that both return by default; `agreement` measures how often two models agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from hush.audit import Softmax, fit_softmax
from hush.errors import InvalidArgument, check_count
from hush.randomness import RandomSource, source_or_default, uniform_below

__all__ = ["Extraction", "agreement", "extract_linear", "knockoff"]

Floats = NDArray[np.float64]
Victim = Callable[[Floats], ArrayLike]  # inputs [n, ...] to logits or log-probabilities [n, K]
Student = Callable[[Floats], ArrayLike]
Fit = Callable[[Floats, Floats], Student]  # inputs and probabilities to a student


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Extraction:
    """A copy of a model, from `knockoff`, and how good it is on test inputs.

    >>> from hush.randomness import TestSource
    >>> weights = np.array([[1.0, -1.0]])
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> settings = {"queries": 20, "inputs": x, "labels": x[:, 0] < 0, "source": TestSource(1)}
    >>> copy = knockoff(lambda inputs: inputs @ weights, x, **settings)
    >>> copy.queries, copy.agreement > 0.95
    (20, True)

    Attributes:
        student: The copy: a function from inputs to one number per class.
        queries: The number of queries to the victim.
        agreement: How often the copy and the victim predict the same class.
        accuracy: The accuracy of the copy.
        victim_accuracy: The accuracy of the victim.
    """

    student: Student
    queries: int
    agreement: float
    accuracy: float
    victim_accuracy: float


def extract_linear(victim: Victim, num_features: int) -> Softmax:
    """Copy a linear model from its outputs at zero and at each unit vector: ``num_features + 1`` queries.

    Logits give an exact copy. Log-probabilities give one up to a term that all classes share, which changes no
    prediction. A model that is not linear is copied wrongly; `agreement` shows it. Known as model extraction, here by
    solving equations.

    >>> weights = np.array([[1.0, -1.0], [0.5, 2.0]])
    >>> extract_linear(lambda inputs: inputs @ weights, num_features=2).weights.tolist()
    [[1.0, -1.0], [0.5, 2.0]]

    Args:
        victim: A function from inputs to logits or log-probabilities.
        num_features: The number of features.

    Returns:
        The copy.

    References:
        Tramer et al. 2016, Section 4.1 (equation-solving attacks).
    """
    size = check_count("num_features", num_features)
    outputs = _outputs(victim, np.vstack([np.zeros((1, size)), np.eye(size)]))
    if not bool(np.isfinite(outputs).all()):
        raise InvalidArgument("victim", "its outputs", "finite logits or log-probabilities")
    return Softmax(outputs[1:] - outputs[0], outputs[0])


def knockoff(
    victim: Victim,
    transfer: ArrayLike,
    *,
    queries: int,
    inputs: ArrayLike,
    labels: ArrayLike,
    fit: Fit | None = None,
    source: RandomSource | None = None,
) -> Extraction:
    """Train a student on the victim's outputs for a random choice of the attacker's inputs.

    Args:
        victim: A function from inputs to logits or log-probabilities.
        transfer: The attacker's inputs. They need not resemble the victim's training data.
        queries: How many of them to query.
        inputs: Test inputs, to measure the copy.
        labels: The classes of the test inputs.
        fit: A function of inputs and the victim's probabilities that trains a student; by default softmax regression.
        source: The source of randomness. Pass a TestSource in tests only.

    Returns:
        The student, and how well it copies the victim.

    References:
        Orekondy, Schiele & Fritz 2019 (Knockoff Nets; the random strategy).
    """
    transfer_inputs, test_inputs = np.asarray(transfer, dtype=np.float64), np.asarray(inputs, dtype=np.float64)
    if not check_count("queries", queries) <= len(transfer_inputs):
        raise InvalidArgument("queries", queries, "at most the number of transfer inputs")
    sort_keys = np.asarray(uniform_below(source_or_default(source), 1 << 62, len(transfer_inputs)))
    query_inputs = transfer_inputs[np.argsort(sort_keys)[:queries]]
    probabilities = softmax(_outputs(victim, query_inputs), axis=1)
    student = (_fit_linear if fit is None else fit)(query_inputs, probabilities)
    predicted, victim_predicted = (_outputs(model, test_inputs).argmax(1) for model in (student, victim))
    true_classes = np.asarray(labels)
    if true_classes.shape != predicted.shape:
        raise InvalidArgument("labels", true_classes.shape, "one for each input")
    return Extraction(
        student=student,
        queries=queries,
        agreement=float((predicted == victim_predicted).mean()),
        accuracy=float((predicted == true_classes).mean()),
        victim_accuracy=float((victim_predicted == true_classes).mean()),
    )


def agreement(one: Victim, other: Victim, inputs: ArrayLike) -> float:
    """Return how often two models predict the same class.

    >>> agreement(lambda x: np.hstack([x, -x]), lambda x: np.hstack([-x, x]), [[1.0], [2.0]])
    0.0

    Args:
        one: A model: a function from inputs to one number per class.
        other: Another model.
        inputs: The inputs to compare on.

    Returns:
        A share in [0, 1].
    """
    test_inputs = np.asarray(inputs, dtype=np.float64)
    return float((_outputs(one, test_inputs).argmax(1) == _outputs(other, test_inputs).argmax(1)).mean())


def _fit_linear(inputs: Floats, probabilities: Floats) -> Student:
    return fit_softmax(inputs, probabilities).logits


def _outputs(model: Victim, inputs: Floats) -> Floats:
    if not len(inputs):
        raise InvalidArgument("inputs", 0, "at least one input")
    outputs = np.asarray(model(inputs), dtype=np.float64)
    if outputs.ndim != 2 or len(outputs) != len(inputs):
        raise InvalidArgument("victim", outputs.shape, "one number for each input and class")
    return outputs
