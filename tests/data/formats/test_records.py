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


NUMBERS = ("102418.07", "-3,5", ".5", "1e6", "2.5E-3", " 7.0 ")
DATES = ("2020-02-01", "2020-02-01T10:00:00", "31.12.2020 10:00", "2/1/20", "1-Feb-2020", "Feb 1, 2020")


@pytest.mark.parametrize("value", [*NUMBERS, *DATES])
def test_a_record_is_no_header(value: str) -> None:
    """A file without names once showed the record of its first person, in the message on a target that is missing."""
    with pytest.raises(InvalidArgument, match="looks like a record") as caught:
        column_names(["79", value, "Paris", "yes"], "t.csv")
    assert not any(cell in str(caught.value) for cell in ("79", value.strip(), "Paris", "yes"))


@pytest.mark.parametrize("name", ["2020", "7", "Q1.5", "v1.2.3", "may 2020", "1st", "e5", "12-14", "0-17 years", "1."])
def test_names_may_hold_digits(name: str) -> None:
    assert column_names(["age", name], "t.csv") == ["age", name]


def test_records_have_one_width() -> None:
    records = [["1", "2"], ["3", "4"]]
    assert of_width(2, records) is records  # type: ignore[arg-type, comparison-overlap]
    assert of_width(2, [["1"], [], ["2", "3", "4"]]) == [["1", None], ["2", "3"]]
    assert of_width(2, []) == []
