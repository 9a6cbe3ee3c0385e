"""From the scores of canaries, in one run or several, to a bound on epsilon."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.audit.bounds.audit import audit_one_run
from hush.audit.bounds.one_run import one_run_epsilon
from hush.audit.bounds.result import AuditResult
from hush.audit.membership.signals import mask
from hush.errors import InvalidArgument
from hush.guarantee import Relation, Unit


def audit_label_canaries(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    guessed: float = 0.25,
    unit: Unit | None = None,
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Bound epsilon from the scores of canaries in one run or several.

    With several runs, each canary has a score and a coin in each of them. Its mean score over the *other* runs,
    whatever their coins, is subtracted: that part does not depend on the coin in question. All calibrated scores are
    then audited together as one run. This is valid because each coin influences one model only, so the joint release of
    all models is as private towards each coin as a single model.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random((4, 200)) < 0.5
    >>> scores = 3.0 * included + rng.normal(size=included.shape)
    >>> result = audit_label_canaries(scores, included, delta=1e-5)
    >>> 2 < result.epsilon_lower <= result.details["epsilon_at_best"]
    True

    Args:
        scores: The scores, [runs, canaries] or [canaries]. Higher means more likely to have been included.
        included: The coins, in the same shape.
        delta: The delta at which epsilon is bounded.
        confidence: The confidence of the bound.
        guessed: The share of canaries to guess, fixed beforehand. Half of the guesses say "in", half say "out".
        unit: The privacy unit that a canary stands for.
        relation: The neighbouring relation between the data with and without a canary.

    Returns:
        The bound. ``epsilon_at_best`` in its details is the bound if every guess were correct.

    Guarantee:
        With probability ``confidence``, epsilon_lower is at most the true epsilon of one run at delta.

    Assumes:
        Fair, independent coins, and scores that depend on the models alone, not on the coins (the caller's duty).
        Independent runs (the caller's duty). A share of guesses that was fixed beforehand (the caller's duty).

    References:
        Steinke, Nasr & Jagielski 2023, Theorem 5.2 (one run). Runs with separate coins are joined by parallel
        composition.
    """
    score_table = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if score_table.ndim != 2:
        raise InvalidArgument("scores", score_table.shape, "[runs, canaries] or [canaries]")
    coins = mask("included", np.atleast_2d(np.asarray(included)), score_table.shape)
    if not 0 < guessed <= 1:
        raise InvalidArgument("guessed", guessed, "a share in (0, 1]")
    calibrated = calibrated_scores(score_table)
    # The number of guesses depends on the number of canaries only, so it is fixed beforehand.
    guesses_per_side = max(int(calibrated.size * guessed / 2), 1)
    result = audit_one_run(
        calibrated.ravel(),
        coins.ravel(),
        num_guesses=guesses_per_side,
        num_out_guesses=min(guesses_per_side, calibrated.size - guesses_per_side),
        delta=delta,
        confidence=confidence,
        unit=Unit.example() if unit is None else unit,
        relation=relation,
    )
    total_guesses = int(result.details["num_guesses"])
    # The ceiling of this audit: all r guesses correct.
    at_best = one_run_epsilon(calibrated.size, total_guesses, total_guesses, significance=1 - confidence, delta=delta)
    return replace(result, details={**result.details, "epsilon_at_best": at_best})


def calibrated_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract from each score the canary's mean over the other runs. The scores of a single run are unchanged.

    >>> import numpy as np
    >>> calibrated_scores(np.array([[5.0, 1.0], [3.0, 1.0]])).tolist()
    [[2.0, 0.0], [-2.0, 0.0]]

    Args:
        scores: The scores, [runs, canaries].

    Returns:
        The calibrated scores, in the same shape.
    """
    num_runs = len(scores)
    if num_runs == 1:
        return scores
    # Other runs have their own coins, so their mean is independent of the coin that is guessed.
    mean_of_others = (scores.sum(0) - scores) / (num_runs - 1)
    return np.asarray(scores - mean_of_others)
