"""Conversions that neither raise nor warn on values, and roundings to the safe side."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.numerics import as_floats, as_integers, quiet_numpy, round_down, round_up


class TestAsFloats:
    def test_ordinary_numbers_are_themselves(self) -> None:
        result = as_floats("values", [[1, 2.5], [True, -3]])
        assert result.dtype == np.float64
        assert result.tolist() == [[1.0, 2.5], [1.0, -3.0]]

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint32, np.int64, np.uint64, np.bool_])
    def test_every_real_type_is_read(self, dtype: Any) -> None:
        assert as_floats("values", np.array([0, 1], dtype=dtype)).tolist() == [0.0, 1.0]

    def test_missing_values_become_nan(self) -> None:
        result = as_floats("values", [None, 1, None])
        assert np.isnan(result[[0, 2]]).all()
        assert result[1] == 1

    @given(st.integers(min_value=2**53))
    def test_integers_beyond_exact_floats_are_clamped_and_never_rounded(self, value: int) -> None:
        # Rounding 2^53 + 1 and its neighbour to floats would put them 2 apart; the sensitivity says 1.
        assert as_floats("values", [value, -value]).tolist() == [2.0**53, -(2.0**53)]
        assert as_floats("values", [value, 0.5]).tolist() == [2.0**53, 0.5]

    @given(st.integers(2**53, 2**63 - 1))
    def test_arrays_of_integers_are_clamped_too(self, value: int) -> None:
        assert as_floats("values", np.array([value, -value])).tolist() == [2.0**53, -(2.0**53)]
        assert as_floats("values", np.array([value], dtype=np.uint64)).tolist() == [2.0**53]

    def test_fractions_beyond_floats_are_infinite(self) -> None:
        assert as_floats("values", [Fraction(10**400), Fraction(-(10**400))]).tolist() == [math.inf, -math.inf]

    @pytest.mark.parametrize("values", [["a"], [1j], [object()], [[1], [1, 2]], {"a": 1}, np.array(["2020"], "M8[Y]")])
    def test_other_types_are_refused(self, values: Any) -> None:
        with pytest.raises(InvalidArgument, match="^values"):
            as_floats("values", values)

    @pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are doubles here")
    def test_floats_of_more_than_64_bits_are_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="at most 64 bits"):
            as_floats("values", np.array([1], dtype=np.longdouble))

    def test_masked_arrays_are_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="masked"):
            as_floats("values", np.ma.masked_array([1.0], mask=[True]))

    def test_the_shape_is_checked_and_the_message_has_no_values(self) -> None:
        assert as_floats("values", [7.0, 8.0], (2,)).shape == (2,)
        with pytest.raises(InvalidArgument, match=r"^values\.shape=\(2,\): expected \(3,\)") as refusal:
            as_floats("values", [7.0, 8.0], (3,))
        assert "7" not in str(refusal.value)


class TestAsIntegers:
    def test_ordinary_integers_are_themselves(self) -> None:
        result = as_integers("counts", [1, -2, True])
        assert result.dtype == np.int64
        assert result.tolist() == [1, -2, 1]

    @given(st.integers())
    def test_large_integers_are_clamped(self, value: int) -> None:
        assert as_integers("counts", [value]).tolist() == [max(min(value, 2**61), -(2**61))]

    @given(st.integers(0, 2**64 - 1))
    def test_unsigned_arrays_do_not_wrap_around(self, value: int) -> None:
        assert as_integers("counts", np.array([value], dtype=np.uint64)).tolist() == [min(value, 2**61)]

    def test_missing_values_count_as_zero(self) -> None:
        assert as_integers("counts", [None, 4]).tolist() == [0, 4]

    @pytest.mark.parametrize("values", [[1.0], [1.5, 2], ["1"], np.array([1.0])])
    def test_other_types_are_refused(self, values: Any) -> None:
        with pytest.raises(InvalidArgument, match=r"^counts\.dtype="):
            as_integers("counts", values)


@given(st.floats(1e-300, 1e300))
def test_roundings_enclose_what_six_operations_can_do(value: float) -> None:
    # Each operation has a relative error of at most 2^-53, and so has the product that rounds.
    unit = Fraction(1, 2**53)
    assert Fraction(round_down(value)) <= Fraction(value) * (1 - unit) ** 6
    assert Fraction(round_up(value)) >= Fraction(value) * (1 + unit) ** 6
    assert value * (1 - 1e-14) <= round_down(value) < value < round_up(value) <= value * (1 + 1e-14)


def test_numpy_is_quiet_inside_and_warns_outside() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with quiet_numpy:
            assert math.isnan(np.float64(math.inf) - np.float64(math.inf))
        with pytest.raises(RuntimeWarning):
            np.float64(math.inf) - np.float64(math.inf)
