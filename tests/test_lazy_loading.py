"""Lazy names: loaded on first use, listed by dir, and missing as Python expects."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hush
from hush.lazy_loading import lazy_names


def test_names_come_from_their_modules_and_submodules_are_modules() -> None:
    load, names = lazy_names("hush", {"parse": "hush.strict_json", "guarantee": None})
    assert load("parse") is sys.modules["hush.strict_json"].parse
    assert load("guarantee") is sys.modules["hush.guarantee"]
    assert set(names()) == {*hush.__all__, "guarantee"}  # what is shared inside hush only, such as parse, is not listed
    assert names() == sorted(names())


def test_other_names_are_missing_attributes() -> None:
    load, _ = lazy_names("hush", {"parse": "hush.strict_json"})
    with pytest.raises(AttributeError, match="module 'hush' has no attribute 'prase'"):
        load("prase")
    assert not hasattr(hush, "prase")


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, hush.lazy_loading as lazy\n"
        "load, _ = lazy.lazy_names('hush', {'main': 'json.tool'})\n"
        "assert 'json.tool' not in sys.modules\n"
        "assert 'numpy' not in sys.modules\n"
        "load('main')\n"
        "assert 'json.tool' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
