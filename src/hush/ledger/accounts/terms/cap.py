"""A budget's cap as plain values, in the form that the ledger stores."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from hush.accounting.budget import NO_GAUSSIAN, Box, Cap, GaussianRule
from hush.guarantee import Relation, Unit, UnitKind, UnrecordedWindows, dump_windows, load_windows


def cap_terms(cap: Cap, unit: Unit | str) -> dict[str, Any]:
    """Return a cap as plain values for JSON. ``called`` is the unit in the owner's words."""
    window = cap.unit.window
    terms = {
        "epsilon": cap.epsilon,
        "delta": cap.delta,
        "order": cap.order,
        "claims_delta": cap.claims_delta,
        "gaussian": asdict(cap.gaussian_rule),
        "relation": cap.relation.value,
        "unit": {
            "kind": cap.unit.kind.value,
            "window": None if window is None else dump_windows(window),
            "called": unit if isinstance(unit, str) else str(unit),
        },
    }
    return terms if cap.box is None else {**terms, "box": cap.box.to_json()}


def cap_from(terms: dict[str, Any]) -> Cap:
    """Return the cap that `cap_terms` described."""
    return Cap(
        epsilon=terms["epsilon"],
        delta=terms["delta"],
        order=terms["order"],
        claims_delta=terms["claims_delta"],
        # Older ledgers did not have the rule, and keep the order and the shares of delta that they stored.
        gaussian=GaussianRule(**terms["gaussian"]) if "gaussian" in terms else NO_GAUSSIAN,
        box=Box.from_json(terms["box"]) if "box" in terms else None,
        relation=Relation(terms["relation"]),
        unit=_unit(terms["unit"]),
    )


def _unit(terms: dict[str, Any]) -> Unit:
    """Return the unit of a cap. Older ledgers stored how long windows are, and not where they begin."""
    kind = UnitKind(terms["kind"])
    if "window" in terms:
        return Unit(kind=kind, window=None if terms["window"] is None else load_windows(terms["window"]))
    seconds = terms["seconds"]
    return Unit(kind=kind, window=None if seconds is None else UnrecordedWindows(timedelta(seconds=seconds)))
