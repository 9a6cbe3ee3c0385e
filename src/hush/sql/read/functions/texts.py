"""Rules for functions of text.

Each gives the same result on every engine. Lengths, positions and searched texts are constants, so that no row can make
a function fail or make text grow. Regular expressions are constants as well, of those that every engine reads alike
(`hush.sql.syntax.regexps`); a text counts as its first 2,000 characters there.
"""

from __future__ import annotations

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.functions.conversions import as_text
from hush.sql.read.translator import Rule, Translator
from hush.sql.syntax.expression import Expr, literal, numeric
from hush.sql.syntax.regexps import Pattern, PatternRefused, parse_pattern

_LONGEST = 10_000
_TRIMS = {"": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def text_function(op: str) -> Rule:
    """Return the rule of a function of one text."""

    def rule(translate: Translator, node: exp.Func) -> Expr:
        inner = translate.text(node.this)
        return numeric("length", inner) if op == "length" else Expr(op, ColumnKind.TEXT, (inner,))

    return rule


def trim(translate: Translator, node: exp.Trim) -> Expr:
    """Translate TRIM, LTRIM and RTRIM, which remove spaces."""
    return Expr(_TRIMS[str(node.args.get("position") or "").upper()], ColumnKind.TEXT, (translate.text(node.this),))


def like(op: str) -> Rule:
    """Return the rule of LIKE or ILIKE with a constant pattern."""

    def rule(translate: Translator, node: exp.Like) -> Expr:
        pattern = translate.constant(node.expression, str)
        if "\\" in pattern:
            raise translate.refuse(
                node.expression, "patterns with a backslash are not supported", "Engines disagree about what it means"
            )
        match = Expr(op, ColumnKind.BOOL, (translate.text(node.this),), pattern)
        return Expr("not", ColumnKind.BOOL, (match,)) if node.args.get("negate") else match

    return rule


def substring(translate: Translator, node: exp.Substring) -> Expr:
    """Translate SUBSTRING(x, start, length)."""
    start = translate.constant(node.args["start"], int)
    length = _LONGEST if node.args.get("length") is None else translate.constant(node.args["length"], int)
    if not (1 <= start <= _LONGEST and 0 <= length <= _LONGEST):
        raise translate.refuse(
            node, "SUBSTRING takes a constant start from 1 and a constant length from 0, both at most 10000"
        )
    return Expr("substring", ColumnKind.TEXT, (translate.text(node.this),), (start, length))


def left(translate: Translator, node: exp.Left) -> Expr:
    """Translate LEFT(x, length), the first characters of a text."""
    return Expr("substring", ColumnKind.TEXT, (translate.text(node.this),), (1, _length(translate, node)))


def right(translate: Translator, node: exp.Right) -> Expr:
    """Translate RIGHT(x, length), the last characters of a text."""
    return Expr("right", ColumnKind.TEXT, (translate.text(node.this),), _length(translate, node))


def _length(translate: Translator, node: exp.Left | exp.Right) -> int:
    """Return the constant length of LEFT or RIGHT."""
    length = int(translate.constant(node.expression, int))
    if not 0 <= length <= _LONGEST:
        raise translate.refuse(node, f"{node.sql_name()} takes a constant length from 0 to 10000")
    return length


def starts_with(translate: Translator, node: exp.StartsWith) -> Expr:
    """Translate STARTS_WITH(x, 'prefix')."""
    prefix = _searched(translate, node.expression)
    beginning = Expr("substring", ColumnKind.TEXT, (translate.text(node.this),), (1, len(prefix)))
    return Expr("eq", ColumnKind.BOOL, (beginning, literal(prefix, ColumnKind.TEXT)))


def position(translate: Translator, node: exp.StrPosition) -> Expr:
    """Translate STRPOS(x, 'text') and POSITION('text' IN x): from 1, and 0 where the text does not occur."""
    searched = literal(_searched(translate, node.args["substr"]), ColumnKind.TEXT)
    return numeric("position", translate.text(node.this), searched)


def contains(translate: Translator, node: exp.Contains) -> Expr:
    """Translate CONTAINS(x, 'text')."""
    searched = literal(_searched(translate, node.expression), ColumnKind.TEXT)
    found_at = numeric("position", translate.text(node.this), searched)
    return Expr("gt", ColumnKind.BOOL, (found_at, literal(0, ColumnKind.FLOAT)))


def split_part(translate: Translator, node: exp.SplitPart) -> Expr:
    """Translate SPLIT_PART(x, 'separator', part), which is an empty text if there are fewer parts."""
    separator = _searched(translate, node.args["delimiter"])
    part = translate.constant(node.args["part_index"], int)
    if not 1 <= part <= _LONGEST:
        raise translate.refuse(node, "SPLIT_PART takes a constant part from 1 to 10000")
    return Expr("split_part", ColumnKind.TEXT, (translate.text(node.this),), (separator, part))


def replaced(translate: Translator, node: exp.Replace) -> Expr:
    """Translate REPLACE(x, 'old', 'new'), where the new text is not longer, so that no row can grow without limit."""
    old, new = _searched(translate, node.expression), translate.constant(node.args["replacement"], str)
    if len(new.encode()) > len(old.encode()):
        why = "REPLACE with a longer text is refused: the result could exceed what an engine can hold"
        raise translate.refuse(node, why, "Replace by a text that is not longer")
    return Expr("replace", ColumnKind.TEXT, (translate.text(node.this),), (old, new))


def _searched(translate: Translator, node: exp.Expr) -> str:
    """Return a constant text that is searched for."""
    text = str(translate.constant(node, str))
    if not 1 <= len(text) <= _LONGEST:
        raise translate.refuse(node, "expected a text of 1 to 10000 characters here")
    return text


def concat(translate: Translator, node: exp.Expr) -> Expr:
    """Translate CONCAT(x, y) and x || y."""
    nodes = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    parts = tuple(_as_text(translate, part) for part in nodes)
    if node.args.get("coalesce"):  # CONCAT, unlike ||, skips NULL
        parts = tuple(Expr("coalesce", ColumnKind.TEXT, (part, literal("", ColumnKind.TEXT))) for part in parts)
    return Expr("concat", ColumnKind.TEXT, parts)


def _as_text(translate: Translator, node: exp.Expr) -> Expr:
    """Return a part of a longer text."""
    return as_text(translate(node)) or translate.text(node)


def concat_with_separator(translate: Translator, node: exp.ConcatWs) -> Expr:
    """Translate CONCAT_WS('separator', x, y), which skips NULL."""
    separator, *nodes = node.expressions
    first = literal(translate.constant(separator, str), ColumnKind.TEXT)
    return Expr("concat_ws", ColumnKind.TEXT, (first, *(_as_text(translate, part) for part in nodes)))


def regexp_match(*, ignore_case: bool = False, whole: bool = False) -> Rule:
    """Return the rule of a function that says whether a pattern matches, somewhere or the whole text."""

    def rule(translate: Translator, node: exp.RegexpLike) -> Expr:
        letters = _modifiers(translate, node.args.get("flag") or node.args.get("options"), "ic")
        pattern = _pattern(translate, node.expression, ignore_case=ignore_case or "i" in letters, whole=whole)
        return Expr("regexp_match", ColumnKind.BOOL, (translate.text(node.this),), pattern)

    return rule


def similar(translate: Translator, node: exp.SimilarTo) -> Expr:
    """Translate x SIMILAR TO 'pattern', where it means the same in standard SQL and as a regular expression."""
    differing = set(str(translate.constant(node.expression, str))) & set("%_.^$\\")
    if differing:
        why = f"{' '.join(sorted(differing))} in SIMILAR TO is refused: engines differ about it"
        raise translate.refuse(node.expression, why, "Use LIKE, or REGEXP_MATCHES or ~ with ^ and $")
    pattern = _pattern(translate, node.expression, ignore_case=False, whole=True)
    return Expr("regexp_match", ColumnKind.BOOL, (translate.text(node.this),), pattern)


def regexp_extract(*, missing: str | None) -> Rule:
    """Return the rule of a function that returns the first match, or ``missing`` if there is none."""

    def rule(translate: Translator, node: exp.RegexpExtract | exp.RegexpSubstr) -> Expr:
        group = node.args.get("group")
        if group is not None and translate.constant(group, int) != 0:
            raise translate.refuse(node, "groups of a pattern are not supported", "Write REGEXP_EXTRACT(x, p, 0)")
        letters = _modifiers(translate, node.args.get("parameters"), "ic")
        pattern = _unique(translate, node, _pattern(translate, node.expression, ignore_case="i" in letters))
        return Expr("regexp_extract", ColumnKind.TEXT, (translate.text(node.this),), (pattern, missing))

    return rule


def regexp_replace(translate: Translator, node: exp.RegexpReplace) -> Expr:
    """Translate REGEXP_REPLACE(x, p, 'new'), where the new text is not longer than any match, so that no row grows."""
    letters = _modifiers(translate, node.args.get("modifiers"), "gic")
    pattern = _unique(translate, node, _pattern(translate, node.expression, ignore_case="i" in letters))
    new = str(translate.constant(node.args["replacement"], str))
    if set(new) & set("\\$"):
        raise translate.refuse(node.args["replacement"], "a backslash or $ in a replacement is not supported")
    if len(new.encode()) > pattern.shortest:
        why = "REGEXP_REPLACE with a text that is longer than the shortest match is refused: texts could grow"
        raise translate.refuse(node, why, "Replace by a shorter text")
    is_all = not node.args.get("single_replace") or "g" in letters
    op = "regexp_replace" if is_all else "regexp_replace_first"
    return Expr(op, ColumnKind.TEXT, (translate.text(node.this),), (pattern, new))


def _pattern(translate: Translator, node: exp.Expr, *, ignore_case: bool, whole: bool = False) -> Pattern:
    """Return a constant pattern, checked."""
    try:
        return parse_pattern(str(translate.constant(node, str)), ignore_case=ignore_case, whole=whole)
    except PatternRefused as refusal:
        advice = "Use LIKE, or characters and sets such as [a-z]+ in a row, between ^ and $"
        raise translate.refuse(node, f"this regular expression is refused: {refusal}", advice) from None


def _unique(translate: Translator, node: exp.Expr, pattern: Pattern) -> Pattern:
    """Return a pattern with one match at most wherever it begins."""
    if not pattern.is_unique or pattern.shortest == 0:
        why = "engines could find different matches of this regular expression, or an empty one"
        raise translate.refuse(node, why, "Leave | out, and let no repeated item share characters with the next one")
    return pattern


def _modifiers(translate: Translator, node: exp.Expr | None, known: str) -> str:
    """Return the letters that modify a pattern."""
    letters = "" if node is None else str(translate.constant(node, str))
    if not set(letters) <= set(known) or {"i", "c"} <= set(letters):
        raise translate.refuse(node, f"of the modifiers of a pattern, only {', '.join(known)} are supported")
    return letters
