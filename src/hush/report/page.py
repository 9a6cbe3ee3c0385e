"""The page: header, summary figures, and sections in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from hush.errors import InvalidArgument
from hush.guarantee import TEST_RANDOMNESS, Guarantee
from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, bullets, name, tag
from hush.report.sections.account import budget, public, reproduction, settings
from hush.report.sections.comparison import comparison
from hush.report.sections.diagnostics import diagnostics
from hush.report.sections.document import document, tile
from hush.report.sections.groups import classes, groups
from hush.report.sections.promise import promise, read_guarantee, shown_epsilon
from hush.report.sections.quality import calibration, confusion
from hush.report.sections.result import curve, interval_name, result
from hush.report.sections.section import END, GENERATOR, Section, hidden, listed, mapping, may_be_published

# In reading order. To add a section, write a function from the record to the section, and list it here.
_SECTIONS: Final[tuple[Callable[[Mapping[str, Any]], Section | None], ...]] = (
    result,
    curve,
    classes,
    groups,
    confusion,
    calibration,
    budget,
    public,
    settings,
    reproduction,
    diagnostics,
)


def render(record: Mapping[str, Any]) -> str:
    """Return the report on a run as one self-contained HTML page: no script, no font, no network.

    Every part of the record is optional. If a part is missing, its section is omitted or says so. Figures measured on
    private records are framed as not private, unless the record says that the test data are public, or that the figure
    was measured privately (``record["private"]``, a list of parts, or the part's own ``private``). `publishable`
    removes what is framed.

    Fractions (accuracies, intervals, the calibration error) are numbers from 0 to 1. Values outside this range, such as
    NaN, count as not measured; clamp a fraction after adding noise to it.

    Args:
        record: Plain values, as read from JSON: ``title``, ``created``, ``finished``, ``resumed``, ``warnings``,
            ``guarantee`` (as `Guarantee.to_json` writes it), ``data``, ``accuracy``, ``baseline``, ``curve``,
            ``classes``, ``groups``, ``confusion``, ``calibration``, ``learned``, ``budget``, ``public``,
            ``hyperparameters``, ``versions``, ``command``, ``private``, ``not_private``.

    >>> page = render({"title": "A run", "guarantee": Guarantee(epsilon=2.9996, delta=1e-5).to_json()})
    >>> "<h1><bdi>A run</bdi></h1>" in page, ">3.00<" in page
    (True, True)
    """
    if not isinstance(record, Mapping):
        raise InvalidArgument("record", type(record).__name__, "a mapping")
    guarantee = read_guarantee(record)
    made = [promise(guarantee), comparison(guarantee), *(make(record) for make in _SECTIONS)]
    sections = [section for section in made if section is not None]
    has_secrets = any(END in section.body for section in sections)
    header = _header(record, guarantee, has_secrets=has_secrets)
    return document(_title(record), header, sections, generator=GENERATOR)


def _title(record: Mapping[str, Any]) -> str:
    return str(record.get("title") or "Report on a private training run")


def _header(record: Mapping[str, Any], guarantee: Guarantee | None, *, has_secrets: bool) -> Html:
    notices = [_secrets_notice() if has_secrets else None, _unfinished(record), _warnings(record)]
    title, origin = tag("h1", name(_title(record))), _origin(record, guarantee)
    return tag("header", title, _for_tests(guarantee), origin, _tiles(record, guarantee), *filter(None, notices))


def _for_tests(guarantee: Guarantee | None) -> Html | None:
    if guarantee is None or TEST_RANDOMNESS not in guarantee.assumptions:
        return None
    words = "NOT PRIVATE: made with test randomness. Whoever knows the seed can subtract the noise."
    return tag("div", tag("p", tag("strong", words)), class_="notice")


def _origin(record: Mapping[str, Any], guarantee: Guarantee | None) -> Html:
    created, resumed = record.get("created"), numbers.number(record.get("resumed"))
    origin = f"Created by hush, {_moment(str(created))}" if created else "Created by hush"
    resumptions = f", resumed {'once' if resumed == 1 else f'{resumed:.0f} times'}" if resumed else ""
    row = None if guarantee is None else guarantee.charged
    paid = "" if row is None else f". Charged to the budget {row.budget} by row {row.row} of its ledger"
    return tag("p", name(origin + resumptions + paid), class_="meta")


def _moment(text: str) -> str:
    """Format an ISO time for readers. Other text stays as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment.day} {moment:%B %Y, %H:%M} {moment.tzname() or ''}".strip()


def _tiles(record: Mapping[str, Any], guarantee: Guarantee | None) -> Html:
    tiles = []
    if guarantee is None:
        tiles.append(_tile("none", "guarantee"))
    else:
        tiles.append(_tile(shown_epsilon(guarantee), "epsilon (smaller is more private)"))
        tiles.append(_tile(numbers.delta(guarantee.delta), "delta"))
        tiles.append(_tile(str(guarantee.unit), "privacy unit"))
    if accuracy := mapping(record, "accuracy"):
        private = may_be_published(record, "accuracy")
        ends = numbers.interval(accuracy)
        between = "" if ends is None else f", {interval_name(record)} {numbers.percent_interval(ends)}"
        label = f"held-out accuracy{between}" + ("" if private else " (not private)")
        measured = _tile(numbers.percent(accuracy.get("value")), label, private)
        tiles.append(measured if private else hidden(measured))
    return tag("div", *tiles, class_="tiles")


def _tile(figure: str, label: str, private: bool = True) -> Html:
    return tile(figure, label, class_="tile" if private else "tile secret")


def _secrets_notice() -> Html:
    words = "This page contains figures that are not private. They are in dashed frames, marked “Not private”."
    advice = "To publish the page, use the version that hush.report.publishable returns."
    return hidden(tag("div", tag("p", words, " ", advice), class_="notice"))


def _unfinished(record: Mapping[str, Any]) -> Html | None:
    if record.get("finished") is not False:
        return None
    words = "This run has not finished. The figures are from its last saved state."
    return tag("div", tag("p", tag("strong", words)), class_="notice")


def _warnings(record: Mapping[str, Any]) -> Html | None:
    sentences = listed(record, "warnings")
    if not sentences:
        return None
    return tag("div", tag("p", tag("strong", "Warnings")), bullets(map(name, sentences)), class_="notice")
