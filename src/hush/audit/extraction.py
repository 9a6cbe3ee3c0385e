"""Model extraction: a copy of a model from its answers.

- `extract_linear`: a linear model exactly, from one query more than it has inputs.
- `knockoff`: a student that is trained on the victim's answers to inputs of the attacker's own.
- `Softmax`: the copy that both make; `agreement`: how often two models answer the same; `Extraction`: what came out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from hush.audit.softmax import Softmax as Softmax
from hush.audit.softmax import fit_softmax
from hush.errors import InvalidArgument, check_count
from hush.randomness import RandomSource, source_or_default, uniform_below

__all__ = ["Extraction", "Softmax", "agreement", "extract_linear", "knockoff"]

Floats = NDArray[np.float64]
Victim = Callable[[Floats], ArrayLike]  # from inputs [n, ...] to logits or log-probabilities [n, K]
Student = Callable[[Floats], ArrayLike]
Fit = Callable[[Floats, Floats], Student]  # from inputs and probabilities to a student


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Extraction:
    """How good a copy is.

    Attributes:
        student: The copy: from inputs to one number for each class.
        queries: How many inputs the victim was asked about.
        agreement: How often the copy answers as the victim does, on the inputs given to measure with.
        accuracy: How often the copy is right there.
        victim_accuracy: How often the victim is.
    """

    student: Student
    queries: int
    agreement: float
    accuracy: float
    victim_accuracy: float


def extract_linear(victim: Victim, num_features: int) -> Softmax:
    """Return a linear model from its answers at zero and at each unit vector: ``num_features + 1`` queries.

    Logits give it exactly; log-probabilities give it up to what all classes share, which changes no answer. What is
    not linear is copied wrongly, and `agreement` shows it.

    References:
        Tramer et al. 2016, Section 4.1 (equation-solving attacks).
    """
    size = check_count("num_features", num_features)
    answers = _answers(victim, np.vstack([np.zeros((1, size)), np.eye(size)]))
    if not bool(np.isfinite(answers).all()):
        raise InvalidArgument("victim", "its answers", "finite logits or log-probabilities")
    return Softmax(answers[1:] - answers[0], answers[0])


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
    """Train a student on a victim's answers to some of the attacker's inputs, chosen at random.

    Args:
        victim: Gives logits or log-probabilities.
        transfer: Inputs that the attacker has; they need not be like the victim's.
        queries: How many of them to ask about.
        inputs: Inputs to measure with.
        labels: Their classes.
        fit: How a student is trained, from inputs and the victim's probabilities; without it, softmax regression.
        source: Where the choice comes from; for tests, a TestSource.

    References:
        Orekondy, Schiele & Fritz 2019 (Knockoff Nets; the random strategy).
    """
    given, tested = np.asarray(transfer, dtype=np.float64), np.asarray(inputs, dtype=np.float64)
    if not check_count("queries", queries) <= len(given):
        raise InvalidArgument("queries", queries, "at most as many as there are inputs to transfer")
    order = np.argsort(np.asarray(uniform_below(source_or_default(source), 1 << 62, len(given))))
    asked = given[order[:queries]]
    answers = _answers(victim, asked)
    student = _fitted(asked, softmax(answers, axis=1)) if fit is None else fit(asked, softmax(answers, axis=1))
    mine, theirs = (_answers(each, tested).argmax(1) for each in (student, victim))
    true = np.asarray(labels)
    if true.shape != mine.shape:
        raise InvalidArgument("labels", true.shape, "one for each input")
    return Extraction(
        student=student,
        queries=queries,
        agreement=float((mine == theirs).mean()),
        accuracy=float((mine == true).mean()),
        victim_accuracy=float((theirs == true).mean()),
    )


def agreement(one: Victim, other: Victim, inputs: ArrayLike) -> float:
    """Return how often two models give the same class."""
    given = np.asarray(inputs, dtype=np.float64)
    return float((_answers(one, given).argmax(1) == _answers(other, given).argmax(1)).mean())


def _fitted(inputs: Floats, wanted: Floats) -> Student:
    return fit_softmax(inputs, wanted).logits


def _answers(model: Victim, inputs: Floats) -> Floats:
    if not len(inputs):
        raise InvalidArgument("inputs", 0, "one at least")
    found = np.asarray(model(inputs), dtype=np.float64)
    if found.ndim != 2 or len(found) != len(inputs):
        raise InvalidArgument("victim", found.shape, "one number for each input and class")
    return found
