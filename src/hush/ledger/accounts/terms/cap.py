"""A budget's cap as plain values, in the form that the ledger stores."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from hush.accounting.budget import NO_GAUSSIAN, Box, Cap, GaussianRule
from hush.guarantee import Relation, Unit, UnitKind, UnrecordedWindows, load_windows


def cap_terms(cap: Cap, unit: Unit | str) -> dict[str, Any]:
    """Return a cap as plain values for JSON. ``unit_name`` is the unit in the owner's words."""
    terms = {
        "epsilon": cap.epsilon,
        "delta": cap.delta,
        "order": cap.order,
        "claims_delta": cap.claims_delta,
        "gaussian": asdict(cap.gaussian_rule),
        "relation": cap.relation.value,
        "unit": cap.unit.name,
        "unit_name": unit if isinstance(unit, str) else str(unit),
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


def unit_name_from(terms: dict[str, Any]) -> str:
    """Return the unit that `cap_terms` described, in the owner's words."""
    if "unit_name" in terms:
        return str(terms["unit_name"])
    unit = terms.get("unit")
    return str(unit.get("called", "")) if isinstance(unit, dict) else ""


def _unit(terms: str | dict[str, Any]) -> Unit:
    """Return the unit of a cap.

    Older ledgers stored its kind and its windows, and the oldest ones how long windows are, and not where they begin.
    """
    if isinstance(terms, str):
        return Unit.from_name(terms)
    kind = UnitKind(terms["kind"])
    if "window" in terms:
        return Unit(kind=kind, window=None if terms["window"] is None else load_windows(terms["window"]))
    seconds = terms["seconds"]
    return Unit(kind=kind, window=None if seconds is None else UnrecordedWindows(timedelta(seconds=seconds)))
