"""The audit section of a page."""

from __future__ import annotations

from typing import Any

import pytest

from hush.errors import InvalidArgument
from hush.guarantee import Guarantee
from hush.report import publishable, render
from hush.report.page_parts import Html
from hush.report.sections.attack import with_audit

AUDIT: dict[str, Any] = {
    "sentence": "The attack proves epsilon of at least 0.4.",
    "epsilon_lower": 0.4,
    "confidence": 0.95,
    "method": "one run",
    "num_in": 50,
    "num_out": 48,
    "claimed": Guarantee(epsilon=1.0, delta=0.0).to_json(),
    "assumptions": ["canaries are independent"],
}
CURVE = Html("<svg>curve</svg>")
PAGE = render({"title": "A run"})


def test_the_section_and_its_link_are_added_and_not_published() -> None:
    page = with_audit(PAGE, AUDIT, CURVE)
    assert page.count('id="audit"') == page.count('href="#audit"') == 1
    assert "at least 0.4" in page
    assert publishable(page) == publishable(PAGE)


def test_an_earlier_audit_is_replaced() -> None:
    again = with_audit(with_audit(PAGE, AUDIT, CURVE), {**AUDIT, "sentence": "Another."}, CURVE)
    assert again == with_audit(PAGE, {**AUDIT, "sentence": "Another."}, CURVE)


def test_a_page_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="^page="):
        with_audit("<html><main></main></html>", AUDIT, CURVE)
