"""The model's accuracy, and how it grew with the privacy budget spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hush.report.drawing import numbers as numbers
from hush.report.drawing.markup import Html, facts, figure, folded, join, name, table, tag
from hush.report.drawing.svg import Line, Point, lines
from hush.report.sections.section import EXACT, Section, entries, guarded, mapping, may_be_published, secret

# The plot above shows more than a longer table would.
_MOST_ROWS = 60


def result(record: Mapping[str, Any]) -> Section:
    """Return the section about the data and the accuracy."""
    measured = {"accuracy": _accuracy(record), "error": _error(record), "baseline": _baseline(record)}
    safe = [body for part, body in measured.items() if body is not None and may_be_published(record, part)]
    unsafe = [body for part, body in measured.items() if body is not None and not may_be_published(record, part)]
    parts = [
        None if record.get("accuracy") or record.get("error") else tag("p", "Accuracy was not measured."),
        *safe,
        secret(EXACT, join(unsafe)) if unsafe else None,
        _data(record),
    ]
    return Section(key="result", title="Result", body=join(parts))


def interval_name(record: Mapping[str, Any]) -> str:
    """Return the name of the intervals, with their confidence if the record states it."""
    level = numbers.share(mapping(record, "accuracy").get("confidence"))
    return "uncertainty interval" if level is None else f"{numbers.general(100 * level)} % interval"


def _accuracy(record: Mapping[str, Any]) -> Html | None:
    accuracy = mapping(record, "accuracy")
    if not accuracy:
        return None
    value = tag("strong", numbers.percent(accuracy.get("value")))
    ends = numbers.interval(accuracy)
    between = "." if ends is None else f" ({interval_name(record)}: {numbers.percent_interval(ends)})."
    words = tag("p", "Held-out accuracy: ", value, between)
    return join([words, tag("p", _privacy_of_accuracy(record))])


def _error(record: Mapping[str, Any]) -> Html | None:
    """Write the error of a model of numbers, and that of a constant."""
    error = mapping(record, "error")
    if not error:
        return None
    if numbers.number(error.get("value")) is None:
        return tag("p", "The error was not measured: too few held-out units to measure through the noise.")
    low, high, root, baseline = (
        numbers.measured(error.get(key)) for key in ("low", "high", "root_mean_square", "baseline")
    )
    level = numbers.share(error.get("confidence"))
    kind = "interval" if level is None else f"{numbers.general(100 * level)} % interval"
    of = _of(error)
    words = tag("p", "Mean absolute error on held-out units", of, ": ", tag("strong", numbers.measured(error["value"])))
    whose = "the clamped targets" if of else "the target"
    squares = "" if error.get("root_mean_square") is None else f"; root mean squared error: {root}"
    between = f"{kind}: {low} to {high}{squares}; the standard deviation of {whose}: {baseline}"
    return join([words, tag("p", between)])


def _of(error: Mapping[str, Any]) -> str:
    """Return which targets an error is of: clamped ones. Older records do not say to what."""
    ends = error.get("clamped_to")
    if not isinstance(ends, list | tuple) or len(ends) != 2 or any(numbers.number(end) is None for end in ends):
        return ""
    return f", of targets clamped to [{numbers.general(ends[0])}, {numbers.general(ends[1])}]"


def _privacy_of_accuracy(record: Mapping[str, Any]) -> str:
    """Return a sentence on whether publishing the accuracy costs privacy."""
    if mapping(record, "data").get("test_is_public") is True:
        return "The test data are public, so this figure reveals no more than the model itself."
    if may_be_published(record, "accuracy"):
        return "The test data are private. This figure was measured privately, within the budget below."
    return "The test data are private, and this figure is exact: the guarantee does not cover it."


def _baseline(record: Mapping[str, Any]) -> Html | None:
    baseline = mapping(record, "baseline")
    if not baseline:
        return None
    what = name(baseline.get("what", "a model that learned nothing"))
    return tag("p", "For comparison, ", what, ": ", numbers.percent(baseline.get("accuracy")), ".")


def _data(record: Mapping[str, Any]) -> Html | None:
    data = mapping(record, "data")
    if not data:
        return None
    public = data.get("test_is_public")
    descriptions = {True: "public", False: "private: held-out records"}
    writers = {
        "Data": ("name", name),
        "Training examples": ("num_train", numbers.count),
        "Test examples": ("num_test", numbers.count),
        "Classes": ("classes", _class_names),
        "Features": ("features", name),
        "Privacy unit": ("unit", name),
        "How it was measured": ("how_measured", name),
    }
    pairs: list[tuple[object, object]] = [
        (title, write(data[key])) for title, (key, write) in writers.items() if data.get(key) not in (None, [])
    ]
    if isinstance(public, bool):
        pairs.append(("Test data", descriptions[public]))
    return facts("Data", pairs)


def _class_names(classes: Any) -> Html:
    if not isinstance(classes, list | tuple):
        return name(classes)
    names: list[object] = [name(item) for item in classes[:20]]
    return join([f"{len(classes)}: ", join(names, ", "), ", …" if len(classes) > len(names) else None])


def curve(record: Mapping[str, Any]) -> Section | None:
    """Return the section with accuracy against epsilon spent; None if no curve was recorded."""
    if record.get("curve") is None:
        return None
    rows = [row for row in entries(record, "curve") if _is_drawable(row)]
    body = (
        guarded(record, "curve", _curve(record, rows))
        if rows
        else tag("p", "Accuracy was not measured during training.")
    )
    return Section(key="curve", title="Accuracy against the privacy budget spent", body=body)


def _is_drawable(row: Mapping[str, Any]) -> bool:
    return numbers.number(row.get("epsilon")) is not None and numbers.share(row.get("accuracy")) is not None


def _curve(record: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> Html:
    last = rows[-1]
    summary = (
        f"At the last measurement, epsilon {numbers.epsilon(last['epsilon'])} was spent and the accuracy was "
        f"{numbers.percent(last['accuracy'])}."
    )
    shape = "The whisker" if len(rows) == 1 else "The band"
    band = f"{shape} is the {interval_name(record)}." if any(numbers.interval(row) for row in rows) else None
    reference = _reference(record)
    beyond = None if reference is None or _is_near(reference[1], rows) else _beyond(*reference)
    plot = lines(
        [Line(label=numbers.percent(last["accuracy"]), points=[_point(row) for row in rows])],
        title="Accuracy against epsilon",
        description=summary,
        across="epsilon spent",
        up="Accuracy (%)",
        percent=True,
        reference=reference if beyond is None else None,
    )
    notes: list[object] = [note for note in (summary, band, beyond) if note is not None]
    return join([figure(plot, *notes), folded("Data", _curve_table(record, rows))])


def _point(row: Mapping[str, Any]) -> Point:
    ends = numbers.interval(row)
    percent = None if ends is None else (100 * ends[0], 100 * ends[1])
    return Point(x=float(row["epsilon"]), y=100 * float(row["accuracy"]), ends=percent)


def _reference(record: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the baseline. One that is not private must not appear in a plot that may be published."""
    baseline = mapping(record, "baseline")
    value = numbers.share(baseline.get("accuracy"))
    if value is None or (may_be_published(record, "curve") and not may_be_published(record, "baseline")):
        return None
    return str(baseline.get("what", "baseline")), 100 * value


def _is_near(level: float, rows: list[Mapping[str, Any]]) -> bool:
    """Return whether a level can be drawn without flattening the curve."""
    values = [100 * float(row["accuracy"]) for row in rows]
    room = max(max(values) - min(values), 10.0)
    return min(values) - room <= level <= max(values) + room


def _beyond(what: str, level: float) -> Html:
    return join(["Outside the plot: ", name(what), f", {numbers.percent(level / 100)}."])


def _curve_table(record: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> Html:
    stride = -(-len(rows) // _MOST_ROWS)
    shown = rows[::-1][::stride][::-1]  # thinned from the end, so that the last row is included
    head = ["Step", "Epsilon", "Accuracy", interval_name(record).capitalize()]
    cells = [
        [
            numbers.count(row.get("step")),
            numbers.epsilon(row["epsilon"]),
            numbers.percent(row["accuracy"]),
            numbers.percent_interval(numbers.interval(row)),
        ]
        for row in shown
    ]
    caption = "Accuracy during training" + ("" if stride == 1 else f", every {stride}th measurement")
    return table(caption, head, cells, class_="numbers")
