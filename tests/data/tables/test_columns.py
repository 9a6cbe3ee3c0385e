"""Kinds of columns, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hush import data
from hush.errors import InvalidArgument


def test_numbers_that_are_none() -> None:
    for bound in (float("nan"), float("inf"), "1", True):
        with pytest.raises(InvalidArgument):
            data.Numeric(lower=bound, upper=2)  # type: ignore[arg-type]


def test_what_is_left_to_learn() -> None:
    assert data.Numeric(lower=0, upper=1).complete
    assert not data.Numeric(lower=0).complete
    assert not data.Category().complete
    assert data.Category(values=()).complete
    assert data.Text(vocabulary=("a",)).complete
    assert data.Ignore().complete


def test_bounds_leave_room_even_at_the_ends_of_floats() -> None:
    assert data.Numeric(lower=-1.7e308, upper=1.7e308).complete
    for lower, upper in ((1, 1), (2, 1), (0.0, -0.0)):
        with pytest.raises(InvalidArgument, match="^upper="):
            data.Numeric(lower=lower, upper=upper)
    with pytest.raises(InvalidArgument, match="^upper="):
        data.Numeric(upper=10**400)


@pytest.mark.parametrize("values", ["ab", [1.5], [True], ["a", "a"], ["a", " a"], [""], [None], {"a"}], ids=str)
def test_values_are_distinct_texts_or_integers(values: Any) -> None:
    with pytest.raises(InvalidArgument, match="^values="):
        data.Category(values=values)
    assert data.Category(values=(1, " b\u00a0")).values == ("1", "b")  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["two words", "Upper", "a-b", "under_score"])
def test_a_vocabulary_has_words_that_text_is_split_into(word: str) -> None:
    with pytest.raises(InvalidArgument, match="^vocabulary="):
        data.Text(vocabulary=(word,))
    with pytest.raises(InvalidArgument, match="^vocabulary="):
        data.Text(vocabulary=())


def test_a_vocabulary_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("\ufeffGood\n\n bad \nGOOD\n", encoding="utf-8")
    assert data.Text.from_file(tmp_path / "words.txt").vocabulary == ("good", "bad")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(InvalidArgument, match="one word per line"):
        data.Text.from_file(tmp_path / "latin.txt")


@pytest.mark.parametrize("shape", [(3, 3), (1, 0, 3), (1, 2.0, 3), (1, 2, 3, 4)], ids=str)
def test_shapes_are_three_counts(shape: Any) -> None:
    with pytest.raises(InvalidArgument, match="^shape="):
        data.Images(lower=0, upper=1, shape=shape)
    with pytest.raises(InvalidArgument, match="^images="):
        data.Images(lower=0, upper=None)  # type: ignore[arg-type]
