"""Plots of trade-off curves."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from hush.errors import InvalidArgument
from hush.guarantee import Guarantee
from hush.report import trade_off_plot

CURVE = Guarantee(epsilon=1.0, delta=1e-5).tradeoff()


def test_it_is_a_file_with_a_line_for_each_curve() -> None:
    text = trade_off_plot({"weak": Guarantee(epsilon=3.0, delta=1e-5).tradeoff(), "strong": CURVE})
    ElementTree.fromstring(text)
    assert len(re.findall('<polyline[^>]*class="line', text)) == 2
    assert "strong allows 2.7 % at 1 %" in text


@pytest.mark.parametrize("count", [0, 4])
def test_colours_are_for_three(count: int) -> None:
    with pytest.raises(InvalidArgument, match="curves"):
        trade_off_plot({str(index): CURVE for index in range(count)})


def test_labels_are_text() -> None:
    assert "<b>" not in trade_off_plot({"<b>": CURVE})
