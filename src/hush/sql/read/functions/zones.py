"""Rules for time zones.

| written | value |
|---|---|
| m AT TIME ZONE 'Europe/Berlin', TIMEZONE('Europe/Berlin', m) | what the clock there shows, if m has a time zone |
| the same | the moment at which the clock there shows m, if m has none |
| CONVERT_TIMEZONE('Asia/Tokyo', 'Europe/Berlin', m), CONVERT_TZ of MySQL | m, from one clock to another |
| CONVERT_TIMEZONE('Europe/Berlin', m) | what the clock there shows, if m has a time zone |
| FROM_UTC_TIMESTAMP(m, 'Europe/Berlin'), TO_UTC_TIMESTAMP of Spark | m, from UTC to the clock there, and back |
| DATETIME(m, 'Europe/Berlin'), DATE(m, ...), TIMESTAMP(m, ...) of BigQuery | as AT TIME ZONE |

A timestamp with a time zone is a moment: it can be compared and counted, and has no hour or day without a zone. The
zone is a constant. `hush.sql.syntax.clocks` says what clocks show.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.functions.moments import timestamp
from hush.sql.read.translator import Translator
from hush.sql.syntax.clocks import END, FIRST, MOMENT, moved_clock, zone_named
from hush.sql.syntax.expression import Expr, literal


def at_time_zone(translate: Translator, node: exp.AtTimeZone) -> Expr:
    """Translate m AT TIME ZONE 'zone'."""
    moment, zone = translate(node.this), _zone(translate, node.args["zone"])
    if moment.kind is ColumnKind.INSTANT:
        return _on_clock(translate, node, moment, MOMENT, zone)
    return _moment(translate, node, timestamp(translate.moment(node.this)), zone)


def convert(translate: Translator, node: exp.ConvertTimezone) -> Expr:
    """Translate CONVERT_TIMEZONE and CONVERT_TZ."""
    target = _zone(translate, node.args["target_tz"])
    if node.args.get("source_tz") is None:
        return _on_clock(translate, node, _instant(translate, node.args["timestamp"]), MOMENT, target)
    source = _zone(translate, node.args["source_tz"])
    return _on_clock(translate, node, timestamp(translate.moment(node.args["timestamp"])), source, target)


def datetime_there(translate: Translator, node: exp.Datetime | exp.Date) -> Expr:
    """Translate DATETIME(m, 'zone') and DATE(m, 'zone') of BigQuery."""
    zone = node.args.get("zone") or node.args.get("expression")
    if zone is None:
        raise translate.refuse(node, "expected a moment and a time zone here", "Use CAST for other conversions")
    shown = _on_clock(translate, node, _instant(translate, node.this), MOMENT, _zone(translate, zone))
    return Expr("time_date", ColumnKind.DATE, (shown,)) if isinstance(node, exp.Date) else shown


def moment_there(translate: Translator, node: exp.Timestamp) -> Expr:
    """Translate TIMESTAMP(m, 'zone') of BigQuery."""
    if node.args.get("zone") is None:
        raise translate.refuse(node, "expected a timestamp and a time zone here", "Use CAST for other conversions")
    zone = _zone(translate, node.args["zone"])
    return _moment(translate, node, timestamp(translate.moment(node.this)), zone)


def _zone(translate: Translator, node: Any) -> str:
    """Return the name of a zone, which is a constant."""
    text = translate.constant(node, str)
    name = zone_named(text)
    if name is None:
        advice = "Write the name of a place, such as Europe/Berlin, or UTC: engines differ on offsets and abbreviations"
        raise translate.refuse(node, f"{text!r} is not a time zone", advice)
    return name


def _instant(translate: Translator, node: exp.Expr) -> Expr:
    """Return a node as a timestamp with a time zone."""
    moment = translate(node)
    if moment.kind is not ColumnKind.INSTANT:
        raise translate.refuse(
            node, "expected a timestamp with a time zone here", "Name the zone of the timestamp as well"
        )
    return moment


def _moment(translate: Translator, node: exp.Expr, shown: Expr, zone: str) -> Expr:
    """Return the moment at which a clock shows a timestamp."""
    return _on_clock(translate, node, shown, zone, MOMENT, ColumnKind.INSTANT)


def _on_clock(
    translate: Translator,
    node: exp.Expr,
    moment: Expr,
    start: str,
    end: str,
    kind: ColumnKind = ColumnKind.TIME,
) -> Expr:
    """Return a timestamp on another clock. From one clock to UTC and on to another one is one step."""
    if moment.op == "move_clock" and moment.kind is ColumnKind.INSTANT:
        (moment,), start = moment.args, moment.value[0]
    if moment.op != "literal":
        return Expr("move_clock", kind, (moment,), (start, end))
    result = None if moment.value is None else moved_clock(moment.value, start, end)
    if result is None:
        raise translate.refuse(node, f"this timestamp is outside the years {FIRST.year} to {END.year - 1}")
    return literal(result, kind)
