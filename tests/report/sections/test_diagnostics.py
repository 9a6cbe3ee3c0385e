"""Diagnostics are always marked as not private."""

from __future__ import annotations

from hush.report.sections.diagnostics import diagnostics
from hush.report.sections.section import BEGIN, END


def test_there_is_no_section_without_figures() -> None:
    assert diagnostics({}) is None
    assert diagnostics({"not_private": {"loss": [], "clipped_fraction": [{"step": 1, "value": 7}]}}) is None


def test_everything_stands_between_the_marks() -> None:
    parts = {
        "loss": [2.0, 1.0],
        "clipped_fraction": [{"step": 1, "value": 0.5}],
        "norm_quantiles": [{"step": 1, "q10": 0.1, "q50": 0.5, "q90": 2.0}],
    }
    section = diagnostics({"not_private": parts, "data": {"test_is_public": True}, "private": ["not_private"]})
    assert section is not None
    assert section.body.startswith(BEGIN)
    assert section.body.endswith(END)
    assert section.body.count("<svg") == 3


def test_a_plain_list_of_losses_has_one_per_step() -> None:
    section = diagnostics({"not_private": {"loss": [2.0, 1.5]}})
    assert section is not None
    assert "At the last step: 1.5" in section.body
