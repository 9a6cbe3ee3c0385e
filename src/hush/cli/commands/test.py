"""`hush test`: a private test of a hypothesis, whose p-value counts the noise.

What is declared decides which test is run: keys make a column one of categories, bounds make it one of numbers. The
data have no influence on it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hush.cli.charging import add_charging, budget_of, note_uncharged
from hush.cli.commands.tested_table import TestedTable, tested_table
from hush.cli.declarations import parse_bounds, parse_pair
from hush.cli.json_values import plain
from hush.cli.terminal import suggest, wrapped
from hush.cli.words import NOISES
from hush.errors import InvalidArgument

if TYPE_CHECKING:
    from hush.data import RowTable, TableData
    from hush.statistics.hypotheses import Design, HypothesisResult

Test = Callable[..., "HypothesisResult"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "test",
        help="test a hypothesis privately: A/B tests, tables, correlation",
        description="Test a hypothesis about a file of personal data, with differential privacy. The p-value accounts "
        "for the noise as well as for chance. Columns with --keys are categories, columns with --bounds are numbers: "
        "this decides between tests of proportions (two outcomes), of independence, of means and of correlation. "
        "Without --between, --shares tests whether the outcome has these shares.",
        epilog="Example: hush test people.csv --between arm --outcome converted --keys arm=a,b --keys "
        "converted=no,yes --unit user_id --epsilon 0.5. Before spending: hush test --power 0.10,0.12 --sizes 4000,4000 "
        "--epsilon 0.5 reads no data.",
    )
    parser.add_argument(
        "data", nargs="?", metavar="DATA", help="a CSV, Excel or Parquet file; not with --power or --catalog"
    )
    parser.add_argument(
        "--catalog",
        metavar="FILE",
        help="a file that declares the table, in place of DATA, --unit, --keys and --bounds; `hush catalog init` "
        "writes one",
    )
    parser.add_argument("--table", metavar="NAME", help="the table of the catalog; if omitted, the only one of people")
    parser.add_argument("--between", metavar="COLUMN", help="the groups to compare, or the other column")
    parser.add_argument("--outcome", metavar="COLUMN", help="the column to compare")
    parser.add_argument(
        "--unit",
        metavar="COLUMN",
        help="the column that identifies a person; or the word row, if each row is a different person",
    )
    _add_declarations(parser)
    cost = parser.add_argument_group("the cost of the test")
    cost.add_argument("--epsilon", type=float, required=True, help="the privacy budget of the test")
    cost.add_argument("--delta", type=float, default=0.0, help="for Gaussian noise (default: 0)")
    cost.add_argument(
        "--noise", choices=list(NOISES), help="the kind of noise; if omitted, the one with the smaller error"
    )
    cost.add_argument(
        "--confidence", type=float, help="confidence of the interval of two means or proportions (default: 0.95)"
    )
    add_charging(parser)
    _add_power(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def _add_declarations(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is known about the data", "Everything declared here is taken as public.")
    group.add_argument(
        "--keys",
        action="append",
        metavar="COLUMN=A,B,...",
        help="the categories of a column; rows with other values are left out; may be repeated. With "
        "two outcomes, the share of the second is compared",
    )
    group.add_argument(
        "--bounds",
        action="append",
        metavar="COLUMN=LOW:HIGH",
        help="the range that the numbers of a column are clamped to; may be repeated",
    )
    group.add_argument("--shares", metavar="A=0.5,B=0.5", help="the share of each outcome under the hypothesis")


def _add_power(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("power, before spending", "These options read no data and cost nothing.")
    group.add_argument("--power", metavar="A,B,...", help="the rates, or means, that the test should tell apart")
    group.add_argument("--sizes", metavar="N,N,...", help="how many people there are in each group")
    group.add_argument("--stds", metavar="S,S,...", help="for means: the standard deviations; needs --bounds")
    group.add_argument("--level", type=float, help="the significance level (default: 0.05)")


def run(options: argparse.Namespace) -> None:
    """Test, or say how likely a test is to find an effect."""
    if options.power is not None:
        _print_power(options)
        return
    for name in ("sizes", "stds", "level"):
        if getattr(options, name) is not None:
            raise InvalidArgument(name, getattr(options, name), "none without --power", "It describes a plan")
    _check_complete(options)
    if options.outcome is None:
        raise InvalidArgument("outcome", None, "the column to compare")
    table = tested_table(options)
    test = _chosen(options, table)
    budget = budget_of(options)
    note_uncharged(budget)
    data = table.open({"outcome": options.outcome, "between": options.between})
    noise = None if options.noise is None else NOISES[options.noise]()
    settings = {
        "units": _units(table, data),
        "epsilon": options.epsilon,
        "delta": options.delta,
        "noise": noise,
        "budget": budget,
    }
    result = _with_assumptions(test(data.rows, settings), data)
    if options.json:
        print(json.dumps(_json_object(result)))
        return
    print(wrapped(str(result)))
    print(wrapped(str(result.guarantee)), file=sys.stderr)
    if result.receipt is not None:
        print(wrapped(str(result.receipt)), file=sys.stderr)
    else:
        suggest("add --budget NAME to charge a ledger    # hush ledger create makes one")


def _check_complete(options: argparse.Namespace) -> None:
    """Refuse a call that lacks several things, and name all of them at once. A single one has a message of its own."""
    if options.catalog is not None:
        return
    roles = {"outcome": options.outcome} | ({} if options.shares else {"between": options.between})
    declared = {text.partition("=")[0] for text in (*(options.keys or ()), *(options.bounds or ()))}
    columns = [] if options.shares else [name for name in roles.values() if name and name not in declared]
    missing = {
        "data": [] if options.data else ["a file"],
        **{role: [] if name else [f"--{role}"] for role, name in roles.items()},
        "keys": [f"--keys or --bounds of {name}" for name in columns],
        "unit": [] if options.unit else ["--unit"],
    }
    if sum(map(len, missing.values())) < 2:
        return
    name = next(name for name, phrases in missing.items() if phrases)
    *others, last = (phrase for phrases in missing.values() for phrase in phrases)
    advice = "To learn categories, count them with hush query first, at a cost of its own. --shares tests one column"
    command = f"A whole command, with your own names: {_whole_command(options, columns)}"
    raise InvalidArgument(name, None, f"{', '.join(others)} and {last}, which say what is public", advice, command)


def _whole_command(options: argparse.Namespace, undeclared: list[str]) -> str:
    """Return the command with an example in place of all that is missing."""
    between, outcome = options.between or "group", options.outcome or "outcome"
    invented = {between, outcome} - {options.between, options.outcome}
    names = set() if options.shares else invented | set(undeclared)
    words = ["hush", "test", options.data or "people.csv"]
    words += ["--shares", options.shares] if options.shares else ["--between", between]
    words += ["--outcome", outcome]
    for flag, texts in (("--keys", options.keys), ("--bounds", options.bounds)):
        words += [word for text in texts or () for word in (flag, text)]
    words += [word for name in sorted(names) for word in ("--keys", f"{name}={'a,b' if name == between else 'no,yes'}")]
    return shlex.join([*words, "--unit", options.unit or "user_id", "--epsilon", f"{options.epsilon:g}"])


def _json_object(result: HypothesisResult) -> dict[str, Any]:
    """Return a result for scripts."""
    names = ("hypothesis", "p_value", "statistic", "estimate", "low", "high", "confidence", "is_hidden", "noise_scale")
    content: dict[str, Any] = {name: plain(getattr(result, name)) for name in names}
    content["totals"] = plain(result.totals.tolist())
    content["guarantee"] = json.loads(result.guarantee.to_json())
    return content if result.receipt is None else {**content, "charged": result.receipt.to_dict()}


def _chosen(options: argparse.Namespace, table: TestedTable) -> Test:
    """Return the test that the declarations choose: a function of the rows and of the settings."""
    if options.shares is not None:
        if options.between is not None:
            raise InvalidArgument("shares", options.shares, "none with --between", "It tests one column alone")
        if options.keys or options.bounds:
            raise InvalidArgument(
                "shares", options.shares, "none with --keys or --bounds", "It names the values itself"
            )
        _refuse_confidence(options)
        return _fit(options.outcome, _parse_shares(options.shares))
    if options.between is None:
        raise InvalidArgument("between", None, "the groups to compare", "Or give --shares, to test one column")
    if options.between == options.outcome:
        raise InvalidArgument("between", options.between, "another column than --outcome")
    kinds = _kind(options.between, table), _kind(options.outcome, table)
    return _OF_KINDS[kinds](options, table)


def _with_confidence(settings: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings with the confidence, if one was asked for."""
    return settings if options.confidence is None else {**settings, "confidence": options.confidence}


def _refuse_confidence(options: argparse.Namespace) -> None:
    """Refuse a confidence for a test without an interval, before anything is charged."""
    if options.confidence is not None:
        raise InvalidArgument("confidence", options.confidence, "none", "Only means and proportions have an interval")


def _kind(name: str, table: TestedTable) -> str:
    """Return whether a column is one of categories or of numbers, which is public."""
    if (name in table.keys) == (name in table.bounds):
        advice = table.advice.format(name)
        raise InvalidArgument("keys", None, f"a declaration of the column {name}, and only one", advice)
    return "categories" if name in table.keys else "numbers"


def _fit(outcome: str, shares: dict[str, float]) -> Test:
    from hush.statistics.hypotheses import goodness_of_fit

    by_code = dict(enumerate(shares.values()))
    return lambda rows, settings: goodness_of_fit(rows.codes(outcome, list(shares)), by_code, **settings)


def _between_categories(options: argparse.Namespace, table: TestedTable) -> Test:
    from hush.statistics.hypotheses import compare_proportions, independence

    groups, outcomes = table.keys[options.between], table.keys[options.outcome]
    if len(outcomes) > 2:
        _refuse_confidence(options)

    def test(rows: RowTable, settings: dict[str, Any]) -> HypothesisResult:
        codes = rows.codes(options.outcome, outcomes), rows.codes(options.between, groups)
        first, second = range(len(outcomes)), range(len(groups))
        if len(outcomes) == 2:
            return compare_proportions(*codes, keys=second, outcome_keys=(0, 1), **_with_confidence(settings, options))
        return independence(*codes, first_keys=first, second_keys=second, **settings)

    return test


def _of_means(options: argparse.Namespace, table: TestedTable) -> Test:
    from hush.statistics.hypotheses import compare_means

    groups, limits = table.keys[options.between], table.bounds[options.outcome]

    def test(rows: RowTable, settings: dict[str, Any]) -> HypothesisResult:
        values, codes = rows.floats([options.outcome])[0], rows.codes(options.between, groups)
        return compare_means(
            values, codes, keys=range(len(groups)), bounds=limits, **_with_confidence(settings, options)
        )

    return test


def _of_numbers(options: argparse.Namespace, table: TestedTable) -> Test:
    from hush.statistics.hypotheses import correlation

    _refuse_confidence(options)
    limits = table.bounds[options.between], table.bounds[options.outcome]

    def test(rows: RowTable, settings: dict[str, Any]) -> HypothesisResult:
        first, second = rows.floats([options.between, options.outcome])
        return correlation(first, second, first_bounds=limits[0], second_bounds=limits[1], **settings)

    return test


def _refused(options: argparse.Namespace, table: TestedTable) -> Test:
    raise InvalidArgument(
        "between", options.between, "the column of categories", f"Swap it with --outcome {options.outcome}"
    )


_OF_KINDS: dict[tuple[str, str], Callable[..., Test]] = {
    ("categories", "categories"): _between_categories,
    ("categories", "numbers"): _of_means,
    ("numbers", "numbers"): _of_numbers,
    ("numbers", "categories"): _refused,
}


def _units(table: TestedTable, data: TableData) -> Any:
    """Return the unit of each row. An empty cell is no id: such rows are left out."""
    from hush.statistics import EachRow

    return EachRow() if table.unit == "row" else [text or None for text in data.rows.texts(str(table.unit)).tolist()]


def _with_assumptions(result: HypothesisResult, data: TableData) -> HypothesisResult:
    """Return the result with what is assumed about the file."""
    assumptions = (*result.guarantee.assumptions, *data.file_assumptions)
    return replace(result, guarantee=replace(result.guarantee, assumptions=assumptions))


def _parse_shares(text: str) -> dict[str, float]:
    """Return the shares of ``A=0.5,B=0.5``, which `goodness_of_fit` would name by codes in a message."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, share = parse_pair("shares", part.strip(), "A=0.5,B=0.5")
        if name in shares:
            raise InvalidArgument("shares", text, f"the value {name} once")
        shares[name] = _numbers("shares", share)[0]
    if not (len(shares) >= 2 and min(shares.values()) > 0 and abs(sum(shares.values()) - 1) <= 1e-9):
        raise InvalidArgument("shares", text, "two positive shares or more, which add up to 1")
    return shares


def _numbers(flag: str, text: str | None) -> list[float]:
    try:
        return [float(word) for word in (text or "").split(",")]
    except ValueError:
        raise InvalidArgument(flag, text, "numbers separated by commas") from None


def _design(options: argparse.Namespace) -> Design:
    """Return the experiment that the flags describe."""
    from hush.statistics.hypotheses import Design

    effects, sizes = _numbers("power", options.power), _numbers("sizes", options.sizes)
    whole = [int(size) if size == size // 1 else size for size in sizes]
    if options.stds is None:
        return Design.proportions(effects, sizes=whole)  # type: ignore[arg-type]
    limits = list(parse_bounds(options.bounds or []).values())
    if len(limits) != 1:
        raise InvalidArgument("bounds", options.bounds, "the bounds of the outcome, with --stds")
    return Design.means_of(effects, stds=_numbers("stds", options.stds), sizes=whole, bounds=limits[0])  # type: ignore[arg-type]


def _print_power(options: argparse.Namespace) -> None:
    """Print the power of a test at this epsilon, and what a power of 0.8 takes."""
    if options.data is not None or options.catalog is not None:
        raise InvalidArgument("power", options.power, "no data beside it", "It is computed from public numbers")
    design = _design(options)
    noise = None if options.noise is None else NOISES[options.noise]()
    level = 0.05 if options.level is None else options.level
    cost = {"delta": options.delta, "noise": noise, "level": level}
    power = design.power(epsilon=options.epsilon, **cost)
    factor = _or_none(lambda: design.factor_for(0.8, epsilon=options.epsilon, **cost))
    epsilon = _or_none(lambda: design.epsilon_for(0.8, **cost))
    if options.json:
        print(json.dumps({"power": power, "factor_for_0.8": factor, "epsilon_for_0.8": epsilon}))
        return
    print(wrapped(f"Power {power:.2f} at level {level:g} and epsilon {options.epsilon:g}. No data were read."))
    larger = "no sizes that were tried" if factor is None else f"groups {factor:.2g} times as large"
    other = "no epsilon up to 20" if epsilon is None else f"epsilon {epsilon:.2g}"
    print(wrapped(f"A power of 0.8 takes {larger} at this epsilon, or {other} with these groups."))


def _or_none(search: Callable[[], float]) -> float | None:
    try:
        return search()
    except InvalidArgument:
        return None
