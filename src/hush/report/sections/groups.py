"""Accuracy by class and by group, and the gaps between them (disparate impact)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, figure, folded, join, name, table, tag
from hush.report.drawing.svg import Row, dots
from hush.report.sections.result import interval_name
from hush.report.sections.section import Section, entries, guarded, mapping

# With more rows than this, only the best and the worst are drawn.
_MOST_ROWS = 36
_AT_EACH_END = 12


def classes(record: Mapping[str, Any]) -> Section | None:
    """Return the section on accuracy by class; None if the record has none."""
    measured = entries(record, "classes")
    if not measured:
        return None
    body = guarded(record, "classes", _comparison(record, measured, "class", "classes"))
    return Section(key="classes", title="Accuracy by class", body=body)


def groups(record: Mapping[str, Any]) -> Section | None:
    """Return the section on accuracy by group; None if the record has none."""
    columns = {column: entries(mapping(record, "groups"), column) for column in mapping(record, "groups")}
    if not columns:
        return None
    intro = tag(
        "p",
        "Private training can cost small groups more accuracy than large ones "
        "(Bagdasaryan, Poursaeed & Shmatikov 2019).",
    )
    parts = [
        join([tag("h3", "By ", name(column)), _comparison(record, measured, "group", "groups")])
        for column, measured in columns.items()
    ]
    body = join([intro, guarded(record, "groups", join(parts))])
    return Section(key="groups", title="Accuracy by group", body=body)


def _comparison(record: Mapping[str, Any], measured: Sequence[Mapping[str, Any]], singular: str, plural: str) -> Html:
    rows = sorted((_row(entry) for entry in measured if _known(entry)), key=lambda row: -row.value)
    if not rows:
        return tag("p", f"Accuracy was measured for none of the {plural}.")
    notes = _gap_notes(rows, singular, plural)
    unmeasured = len(measured) - len(rows)
    if unmeasured:
        notes.append(f"{unmeasured} of the {len(measured)} {plural} could not be measured.")
    if any(row.ends for row in rows):
        notes.append(f"Whiskers are the {interval_name(record)}.")
    plot = dots(
        _ends(rows),
        title=f"Accuracy by {singular}",
        description=join(notes[:2], " "),
        across="accuracy (%)",
        gap=_gap_label(rows),
    )
    return join([figure(plot, *notes), folded("Data", _table(record, measured, singular))])


def _known(entry: Mapping[str, Any]) -> bool:
    return numbers.share(entry.get("accuracy")) is not None


def _row(entry: Mapping[str, Any]) -> Row:
    ends = numbers.interval(entry)
    return Row(
        label=str(entry.get("name", "")),
        value=100 * float(entry["accuracy"]),
        text=numbers.percent(entry["accuracy"]),
        ends=None if ends is None else (100 * ends[0], 100 * ends[1]),
    )


def _ends(rows: list[Row]) -> list[Row | None]:
    if len(rows) <= _MOST_ROWS:
        return list(rows)
    return [*rows[:_AT_EACH_END], None, *rows[-_AT_EACH_END:]]


def _gap(rows: Sequence[Row]) -> str:
    return numbers.points((rows[0].value - rows[-1].value) / 100)


def _gap_label(rows: Sequence[Row]) -> str | None:
    return None if len(rows) < 2 else f"gap: {_gap(rows).replace('percentage ', '')}"


def _gap_notes(rows: Sequence[Row], singular: str, plural: str) -> list[object]:
    if len(rows) < 2:
        return [f"Only one {singular} was measured, so there is no gap."]
    best, worst = rows[0], rows[-1]
    notes: list[object] = [
        join(["Best: ", name(best.label), f", {best.text}. Worst: ", name(worst.label), f", {worst.text}."]),
        f"The gap between best and worst is {_gap(rows)}.{_significance(best, worst)}",
    ]
    if len(rows) > _MOST_ROWS:
        notes.append(f"The plot shows the {_AT_EACH_END} best and the {_AT_EACH_END} worst of {len(rows)} {plural}.")
    return notes


def _significance(best: Row, worst: Row) -> str:
    """Return whether chance could explain the gap. The extremes of many rows differ even by chance alone."""
    if best.ends is None or worst.ends is None:
        return ""
    if best.ends[0] > worst.ends[1]:
        return " Their intervals do not overlap."
    return " Their intervals overlap, so the gap may be due to chance."


def _table(record: Mapping[str, Any], measured: Sequence[Mapping[str, Any]], singular: str) -> Html:
    head = [singular.capitalize(), "Accuracy", interval_name(record).capitalize(), "Examples"]
    rows = [
        [
            name(entry.get("name", "")),
            numbers.percent(entry.get("accuracy")),
            numbers.percent_interval(numbers.interval(entry)),
            numbers.count(entry.get("count")),
        ]
        for entry in measured
    ]
    return table(f"Accuracy by {singular}", head, rows, class_="numbers")
