"""A budget's cap as plain values, in the form that the ledger stores."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hush.accounting.budget import Cap
from hush.guarantee import Relation, Unit, UnitKind


def cap_terms(cap: Cap, unit: Unit | str) -> dict[str, Any]:
    """Return a cap as plain values for JSON. ``called`` is the unit in the owner's words."""
    window = cap.unit.window
    return {
        "epsilon": cap.epsilon,
        "delta": cap.delta,
        "order": cap.order,
        "claims_delta": cap.claims_delta,
        "relation": cap.relation.value,
        "unit": {
            "kind": cap.unit.kind.value,
            "seconds": None if window is None else window.total_seconds(),
            "called": unit if isinstance(unit, str) else str(unit),
        },
    }


def cap_from(terms: dict[str, Any]) -> Cap:
    """Return the cap that `cap_terms` described."""
    seconds = terms["unit"]["seconds"]
    window = None if seconds is None else timedelta(seconds=seconds)
    return Cap(
        epsilon=terms["epsilon"],
        delta=terms["delta"],
        order=terms["order"],
        claims_delta=terms["claims_delta"],
        relation=Relation(terms["relation"]),
        unit=Unit(kind=UnitKind(terms["unit"]["kind"]), window=window),
    )
