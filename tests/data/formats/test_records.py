"""Records: names of columns, and records of one width."""

from __future__ import annotations

import pytest

from hush.data.formats.records import column_names, of_width
from hush.errors import InvalidArgument


def test_names_are_trimmed_and_missing_ones_are_numbered() -> None:
    assert column_names([None, " a ", "b\r\n(EUR)", ""], "t") == ["column1", "a", "b (EUR)", "column4"]


@pytest.mark.parametrize("cells", [[], [None, " "], ["1.5", "2"], ["a", "b", "a"]])
def test_what_is_no_header_is_refused(cells: list[str | None]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        column_names(cells, "t.csv")
    assert "1.5" not in str(caught.value)


def test_records_have_one_width() -> None:
    records = [["1", "2"], ["3", "4"]]
    assert of_width(2, records) is records  # type: ignore[arg-type, comparison-overlap]
    assert of_width(2, [["1"], [], ["2", "3", "4"]]) == [["1", None], ["2", "3"]]
    assert of_width(2, []) == []
