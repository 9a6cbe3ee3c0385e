"""The confusion matrix, and the calibration of the model's confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, figure, folded, join, name, table, tag
from hush.report.drawing.svg import heat, reliability
from hush.report.sections.section import Section, entries, guarded, listed, mapping

# A larger matrix cannot be read.
_MOST_CLASSES = 20


def confusion(record: Mapping[str, Any]) -> Section | None:
    """Return the confusion matrix; None if there is none, or if it is too large to read."""
    matrix = [[max(numbers.number(cell) or 0.0, 0.0) for cell in row] for row in listed(record, "confusion")]
    size = len(matrix)
    if not 2 <= size <= _MOST_CLASSES or any(len(row) != size for row in matrix):
        return None
    body = guarded(record, "confusion", _confusion(matrix, _labels(record, size)))
    return Section(key="confusion", title="Confusion matrix", body=body)


def _labels(record: Mapping[str, Any], size: int) -> list[str]:
    # Not taken from the accuracy by class, which may be private where the matrix is not.
    names = listed(mapping(record, "data"), "classes")
    return [str(label) for label in names] if len(names) == size else [str(i) for i in range(size)]


def _confusion(matrix: list[list[float]], labels: list[str]) -> Html:
    totals = [sum(row) for row in matrix]
    shares = [[cell / total if total > 0 else 0.0 for cell in row] for row, total in zip(matrix, totals, strict=True)]
    worst = max(
        ((shares[i][j], labels[i], labels[j]) for i in range(len(labels)) for j in range(len(labels)) if i != j),
        key=lambda mistake: mistake[0],
    )
    notes: list[object] = [
        "Rows are true classes, columns are predictions; each row adds up to 100 %. Correct cells are framed."
    ]
    if worst[0] > 0:
        notes.append(
            join(
                [
                    "Most frequent mistake: ",
                    name(worst[1]),
                    " taken for ",
                    name(worst[2]),
                    f", {numbers.percent(worst[0])}.",
                ]
            )
        )
    plot = heat(labels, shares, title="Confusion matrix", description="The figures are in the table below.")
    rows = [
        [name(label), *(f"{numbers.general(round(cell, 1))}" for cell in row)]
        for label, row in zip(labels, matrix, strict=True)
    ]
    counts = table(
        "Number of examples by true class (rows) and prediction (columns)", ["", *labels], rows, class_="numbers"
    )
    return join([figure(plot, *notes), folded("Data", counts)])


def calibration(record: Mapping[str, Any]) -> Section | None:
    """Return the section on calibration, or None where it was not measured."""
    part = mapping(record, "calibration")
    if not part:
        return None
    body = guarded(record, "calibration", _calibration(part))
    return Section(key="calibration", title="Calibration", body=body)


def _calibration(part: Mapping[str, Any]) -> Html:
    error = numbers.share(part.get("ece"))
    words = (
        "The calibration error was not measured."
        if error is None
        else f"Expected calibration error: {numbers.points(error)}. This is the average difference between the "
        f"model's confidence and its accuracy."
    )
    bins = [entry for entry in entries(part, "bins") if _is_drawable(entry)]
    if not bins:
        return tag("p", words)
    plot = reliability(
        [
            (100 * float(b["confidence"]), 100 * float(b["accuracy"]), numbers.share(b.get("share")) or 0.0)
            for b in bins
        ],
        title="Reliability diagram",
        description=words,
        across="confidence (%)",
        up="Accuracy (%)",
    )
    how = "On the dashed line, confidence and accuracy agree. Grey bars show the fraction of predictions."
    return join([figure(plot, words, how), folded("Data", _bins(bins))])


def _is_drawable(entry: Mapping[str, Any]) -> bool:
    return all(numbers.share(entry.get(key)) is not None for key in ("confidence", "accuracy"))


def _bins(bins: Sequence[Mapping[str, Any]]) -> Html:
    head = ["Confidence", "Mean confidence", "Accuracy", "Fraction of predictions"]
    rows = [
        [
            " to ".join(numbers.percent(b.get(end)) for end in ("low", "high")),
            *(numbers.percent(b.get(key)) for key in ("confidence", "accuracy", "share")),
        ]
        for b in bins
    ]
    return table("Confidence and accuracy", head, rows, class_="numbers")
