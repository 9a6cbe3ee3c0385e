"""Budget, public inputs, hyper-parameters and reproduction."""

from __future__ import annotations

from hush.report.sections.account import budget, public, reproduction, settings


def test_sections_without_content_are_left_out() -> None:
    assert budget({}) is None
    assert public({}) is None
    assert settings({}) is None
    assert reproduction({}) is None


def test_nothing_public_is_said_and_differs_from_not_saying() -> None:
    section = public({"public": []})
    assert section is not None
    assert "None." in section.body


def test_each_part_of_the_budget_has_its_epsilon_rounded_up() -> None:
    section = budget({"budget": [{"what": "training", "epsilon": 2.99961, "event": "Gaussian"}], "learned": ["bounds"]})
    assert section is not None
    assert "3.00" in section.body
    assert "2.99" not in section.body
    assert "bounds" in section.body


def test_a_part_without_a_valid_epsilon_is_listed_and_not_drawn() -> None:
    section = budget({"budget": [{"what": "training", "epsilon": -1.0}]})
    assert section is not None
    assert "<svg" not in section.body
    assert "not known" in section.body


def test_every_setting_and_version_is_shown() -> None:
    values = settings({"hyperparameters": {"momentum": 0.9, "averaging": True}})
    run = reproduction({"command": "hush train x.csv", "versions": {"hush": "0.1.0"}})
    assert values is not None
    assert run is not None
    for text in ("momentum", "0.9", "averaging", "yes"):
        assert text in values.body
    assert "hush train x.csv" in run.body
    assert "0.1.0" in run.body
