"""Words for types: the only place where a word on the command line becomes a type that affects the guarantee.

In Python such a choice is a type, as in ``noise=LaplaceNoise()``. On the command line it is a word, as in
``--noise laplace``. The values of the enumerations `hush.guarantee.Relation` and `CalendarWindow` are words themselves;
models, which change no guarantee, have their words in `hush.runs.networks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from hush.accounting import (
    Accountant,
    AdvancedAccountant,
    BasicAccountant,
    CdpAccountant,
    GdpAccountant,
    PldAccountant,
    RdpAccountant,
    ZcdpAccountant,
)
from hush.audit import (
    Bonferroni,
    BoundMethod,
    ClopperPearson,
    Explicit,
    GaussianDP,
    MultiSplit,
    SplitScores,
    ThresholdRule,
)
from hush.errors import InvalidArgument
from hush.guarantee import Unit
from hush.statistics import GaussianNoise, LaplaceNoise

if TYPE_CHECKING:
    from hush.ledger import Role

ACCOUNTANTS: Final[Mapping[str, Callable[..., Accountant]]] = {
    "pld": PldAccountant,
    "rdp": RdpAccountant,
    "zcdp": ZcdpAccountant,
    "cdp": CdpAccountant,
    "gdp": GdpAccountant,
    "advanced": AdvancedAccountant,
    "basic": BasicAccountant,
}

NOISES: Final[Mapping[str, type[LaplaceNoise] | type[GaussianNoise]]] = {
    "laplace": LaplaceNoise,
    "gaussian": GaussianNoise,
}

BOUND_METHODS: Final[Mapping[str, Callable[[], BoundMethod]]] = {
    "clopper-pearson": ClopperPearson,
    "gaussian": GaussianDP,
}

THRESHOLD_RULES: Final[Mapping[str, Callable[[], ThresholdRule]]] = {
    "bonferroni": Bonferroni,
    "split": SplitScores,
    "multi-split": MultiSplit,
}

UNIT_KINDS: Final[Mapping[str, Callable[[], Unit]]] = {"example": Unit.example, "user": Unit.user}

ROLES = ("owner", "analyst", "auditor")


def threshold_rule(text: str | None) -> ThresholdRule | None:
    """Return the rule that a word names, or the threshold that a number is; None without either.

    >>> threshold_rule("bonferroni"), threshold_rule("0.5")
    (Bonferroni(), Explicit(threshold=0.5))
    """
    if text is None:
        return None
    if text in THRESHOLD_RULES:
        return THRESHOLD_RULES[text]()
    try:
        return Explicit(float(text))
    except (ValueError, InvalidArgument):
        raise InvalidArgument("--threshold", text, f"a number, or one of {', '.join(THRESHOLD_RULES)}") from None


def role(word: str) -> Role:
    """Return the role that a word names; ledgers need SQLAlchemy, which may be missing."""
    from hush.ledger import Role

    return Role(word)
