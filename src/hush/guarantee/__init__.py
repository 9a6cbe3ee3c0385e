"""The one way in which hush states what a release gives away.

- `Guarantee`: an (epsilon, delta) claim with the unit it protects, the neighbouring relation, the side it bounds,
  the method that proved it and the assumptions it stands on. It explains itself (`Guarantee.explain`) and survives
  a round trip through JSON (`Guarantee.to_json`, `Guarantee.from_json`).
- `Unit`, `UnitKind`: what is protected (an example, a user, a user in a time window, or a group of these).
- `Relation`: what a neighbouring dataset is (add-or-remove, replace, zero-out).
- `Bound`: on which side of the truth the claim lies (upper, lower, estimate).
"""

from hush.guarantee.guarantee import Guarantee as Guarantee
from hush.guarantee.terms import Bound as Bound
from hush.guarantee.terms import Relation as Relation
from hush.guarantee.unit import Unit as Unit
from hush.guarantee.unit import UnitKind as UnitKind

__all__ = ["Bound", "Guarantee", "Relation", "Unit", "UnitKind"]
