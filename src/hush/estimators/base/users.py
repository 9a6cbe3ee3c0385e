"""Selects one row per user, for fits whose guarantee is about people.

Estimators prove the cost of one row. If each user has one row, that is also the cost of a user. Using k rows per user
would multiply the noise by k and help little: averaging rows reduces sampling error only, which matters where noise
matters least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length

from hush.randomness import RandomSource
from hush.statistics import codes_of, one_row_per_unit

_ONE_ID = "each person has exactly one id"
ONE_ROW = "no person has more than one row (the caller's statement)"


@dataclass(frozen=True, slots=True)
class OneRowPerUser:
    """States that no user has more than one row. Pass it as ``units=`` to an estimator's ``fit``.

    The guarantee lists it as an unchecked assumption. If you have ids, pass them instead.

    >>> import numpy as np
    >>> from hush.estimators import PrivateMinMaxScaler
    >>> scaler = PrivateMinMaxScaler(epsilon=1.0, bounds=(0, 1)).fit(np.zeros((5, 2)), units=OneRowPerUser())
    >>> str(scaler.guarantee_.unit), scaler.guarantee_.assumptions
    ('user', ("no person has more than one row (the caller's statement)",))
    """


def rows_of_users(units: Any, X: Any, y: Any, source: RandomSource) -> tuple[Any, Any, str]:
    """Return the rows of X and y to fit, one per user, and the assumptions of this choice.

    Which row of a user is used is drawn at random, independently of other users: adding a user adds one row, and moves
    no other. Rows without an id are left out.

    Args:
        units: One id per row, or `OneRowPerUser`.
        X: The rows.
        y: Their labels, or None.
        source: The random source.
    """
    if isinstance(units, OneRowPerUser):
        return X, y, ONE_ROW
    codes, num_codes = codes_of("units", units)
    check_consistent_length(X, y, codes)
    kept = np.flatnonzero(one_row_per_unit(codes, _picks(codes, num_codes, source)))
    return _safe_indexing(X, kept), None if y is None else _safe_indexing(y, kept), _ONE_ID


def _picks(codes: NDArray[np.int64], num_codes: int, source: RandomSource) -> NDArray[np.int64]:
    """Return a random number for each row, the same for all rows of a user."""
    # A remainder of 62 random bits is uniform but for 2^-62 times the number of a user's rows.
    numbers = (source.words(num_codes) >> np.uint64(2)).astype(np.int64)
    return np.asarray(numbers[codes]) if num_codes else np.zeros(len(codes), dtype=np.int64)
