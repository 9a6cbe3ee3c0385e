"""One operation of an expression, from the texts of its operands. Those whose text is a template are not here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.clocks import END, FIRST, Step, steps
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.regexps import SEARCHED
from hush.sql.write.dialects import Dialect
from hush.sql.write.text.sums import sum_or_mean

Writer = Callable[..., str]  # of an expression, a dialect and the texts of the operands

_LONGEST_REST = 2_000_000_000  # characters: no engine has longer texts
_LONGEST_JOINED = 1_000_000  # characters: every engine holds texts of many times that size


def _case(expression: Expr, dialect: Dialect, *parts: str) -> str:
    """Return a CASE from condition, value, condition, value, ..., default."""
    branches = zip(parts[:-1:2], parts[1:-1:2], strict=True)
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
    return f"(CASE {whens} ELSE {parts[-1]} END)"


def _coalesce(expression: Expr, dialect: Dialect, *texts: str) -> str:
    """Return COALESCE(...)."""
    return f"COALESCE({', '.join(texts)})"


def _extreme(expression: Expr, dialect: Dialect, *texts: str) -> str:
    """Return LEAST(...) or GREATEST(...), which skip missing operands."""
    templates, name = dialect.templates, expression.op
    if expression.kind is ColumnKind.INT and f"{name}_integer" in templates:
        name = f"{name}_integer"
    operand = templates.get(f"{name}_operand", "{0}")
    operands = [operand.format(text) for text in texts]
    return templates[name].format(", ".join(operands))


def _to_text(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return CAST(x AS VARCHAR). Engines write truth values and dates differently."""
    name = {ColumnKind.BOOL: "bool_text", ColumnKind.DATE: "date_text"}.get(expression.args[0].kind, "to_text")
    return dialect.templates[name].format(text)


def _in(expression: Expr, dialect: Dialect, first: str, *candidates: str) -> str:
    """Return x IN (...)."""
    return f"({first} IN ({', '.join(candidates)}))"


def _like(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return x LIKE 'pattern'."""
    return dialect.templates[expression.op].format(text, dialect.text_constant(expression.value))


def _round(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return ROUND by FLOOR, with halves away from 0: sign(x) * floor(|x| * s + 1/2) / s. Engines differ on halves.

    If |x| * s is 2^52 or more, x has no digits left to round.
    """
    scale = dialect.real(10.0**expression.value)
    scaled = f"ABS({text}) * {scale}"
    rounded = f"SIGN({text}) * FLOOR({scaled} + {dialect.real(0.5)}) / {scale}"
    return f"(CASE WHEN {scaled} < {dialect.real(2.0**52)} THEN {rounded} ELSE {text} END)"


def _date_part(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return a part of a date."""
    template = dialect.templates[f"part_{expression.value}"]
    return template.format(text)


def _truncate(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return the beginning of a date's hour, day, week, month, quarter or year."""
    template = dialect.templates[f"truncate_{expression.value}"]
    return template.format(text)


def _substring(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return a part of a text."""
    return dialect.templates["substring"].format(text, *expression.value)


def _right(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return the last characters of a text."""
    return f"RIGHT({text}, {expression.value})"


def _split_part(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return one of the parts of a text that a separator divides."""
    separator, part = expression.value
    return dialect.templates["split_part"].format(text, dialect.text_constant(separator), part)


def _replace(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return a text with one constant text replaced by another."""
    old, new = map(dialect.text_constant, expression.value)
    return f"REPLACE({text}, {old}, {new})"


def _regexp(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return a match of a regular expression in the first characters of a text, or the text with replacements there."""
    pattern, *others = expression.value if isinstance(expression.value, tuple) else (expression.value,)
    templates = dialect.templates
    searched = templates["substring"].format(text, 1, SEARCHED)
    constant = dialect.text_constant(pattern.text(end=templates["regexp_end"]))
    if expression.op == "regexp_match":
        return templates[expression.op].format(searched, constant)
    if expression.op == "regexp_extract":
        match = templates[expression.op].format(searched, constant)
        return match if others[0] is not None else f"NULLIF({match}, {dialect.text_constant('')})"
    replaced = templates[expression.op].format(searched, constant, dialect.text_constant(others[0]))
    rest = templates["substring"].format(text, SEARCHED + 1, _LONGEST_REST)
    return templates["join_texts"].format(replaced, rest)


def _shift(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return a timestamp that is moved by constant intervals, or NULL outside the years that all engines have."""
    moved = text
    for unit, number in expression.value:
        moved += f" {'-' if number < 0 else '+'} INTERVAL '{abs(number)}' {unit.upper()}"
    return dialect.in_calendar(f"({moved})", ColumnKind.TIME)


def _move_clock(expression: Expr, dialect: Dialect, text: str) -> str:
    """Return a timestamp on another clock, or NULL outside the years in which the plan has the steps of both."""
    start, end = expression.value
    if start == end:
        return text
    first, last = (dialect.constant(moment, ColumnKind.TIME) for moment in (FIRST, END))
    inside = f"(CASE WHEN {text} >= {first} AND {text} < {last} THEN {text} END)"
    return dialect.templates["add_seconds"].format(inside, _seconds(text, steps(start, end), dialect))


def _seconds(text: str, clock: Sequence[Step], dialect: Dialect) -> str:
    """Return by how many seconds a timestamp is moved, with as few comparisons as a binary search."""
    if len(clock) == 1:
        return f"({clock[0][1]})"
    middle = len(clock) // 2
    earlier, later = (_seconds(text, half, dialect) for half in (clock[:middle], clock[middle:]))
    since = dialect.constant(clock[middle][0], ColumnKind.TIME)
    return f"(CASE WHEN {text} < {since} THEN {earlier} ELSE {later} END)"


def _concat(expression: Expr, dialect: Dialect, *texts: str) -> str:
    """Return texts joined in pairs, which gives NULL if one of them is NULL."""
    return reduce(dialect.templates["join_texts"].format, _cut(expression, dialect, texts))


def _concat_ws(expression: Expr, dialect: Dialect, *texts: str) -> str:
    """Return texts joined with a separator between them; those that are NULL are left out."""
    separator, *others = _cut(expression, dialect, texts)
    return dialect.templates["join_present"].format(separator, ", ".join(others))


def _cut(expression: Expr, dialect: Dialect, texts: Sequence[str]) -> list[str]:
    """Return the parts of a longer text, so short that all of them together have `_LONGEST_JOINED` characters at most.

    A text that is joined to itself again and again, in a chain of subqueries, would be longer than any engine can hold,
    and end the query. It could be that of one row.
    """
    longest, template = _LONGEST_JOINED // len(texts), dialect.templates["joined_part"]
    return [
        text if operand.op == "literal" else template.format(text, longest)
        for operand, text in zip(expression.args, texts, strict=True)
    ]


# What has no writer is a template of the dialect.
WRITERS: Mapping[str, Writer] = {
    "literal": lambda expression, dialect: dialect.constant(expression.value, expression.kind),
    "column": lambda expression, _: ".".join(expression.value),  # qualified by its table
    "case": _case,
    "least": _extreme,
    "greatest": _extreme,
    "coalesce": _coalesce,
    "to_text": _to_text,
    "in": _in,
    "like": _like,
    "ilike": _like,
    "round": _round,
    "part": _date_part,
    "truncate": _truncate,
    "substring": _substring,
    "right": _right,
    "split_part": _split_part,
    "replace": _replace,
    "shift": _shift,
    "move_clock": _move_clock,
    **dict.fromkeys(("regexp_match", "regexp_extract", "regexp_replace", "regexp_replace_first"), _regexp),
    "concat": _concat,
    "concat_ws": _concat_ws,
    **dict.fromkeys(("sum_of", "mean_of"), sum_or_mean),
}
