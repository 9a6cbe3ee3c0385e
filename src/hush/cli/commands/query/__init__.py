r"""`hush query`: answers a SQL query with differential privacy.

    arguments  ->  hush.sql.Table  ->  price, preview or answer  ->  table, CSV or JSON

With ``--budget`` the answer is charged to a ledger before it is shown. Without SQL, a shell opens.

- ``flags``: the arguments; ``question``: from arguments to a table, and to those of a query.
- ``printing``: prices and answers.
- ``shell``, ``shell_commands``, ``statements``, ``history``: the shell, its ``\d`` and the like, where a statement
  ends, and what the shell remembers.
"""

from __future__ import annotations

import argparse

from hush.cli.charging import budget_of, note_uncharged
from hush.cli.commands.query.flags import add_flags
from hush.cli.commands.query.printing import print_answer, print_price
from hush.cli.commands.query.question import arguments_of, open_table, preview
from hush.cli.commands.query.shell import run_shell
from hush.errors import InvalidArgument


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "query",
        help="answer a SQL query privately",
        description="Answer a SQL query on a file or table of personal data, with differential privacy. The "
        "query that the engine runs bounds the contribution of each privacy unit, and only noisy numbers leave it. "
        "Without SQL, a shell opens, which shows each price before you pay it; it reads statements from a pipe, too.",
        epilog='Example: hush query people.parquet "SELECT region, COUNT(*) FROM people GROUP BY region" '
        "--unit user_id --keys region=north,south --epsilon 0.5. Instead of --epsilon, you can ask for an accuracy: "
        "--accuracy 0.05 --expected 1000 means within 5 % for a group of about 1,000 rows. With a catalog: hush query "
        '--catalog clinic.toml "SELECT ..." --epsilon 0.5, where --rows-per-unit and --groups-per-unit replace the '
        "limits of the file, and everything else about the tables is in the file.",
    )
    add_flags(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Ask, and print the answer; or open the shell."""
    if options.catalog is not None and options.sql is None:
        options.data, options.sql = None, options.data  # the only word is the query
    if options.price and options.preview:
        raise InvalidArgument("preview", True, "either --preview or --price", "Choose one of them")
    people = open_table(options)
    is_free = options.price or options.preview
    budget = None if is_free else budget_of(options)
    if not is_free:
        note_uncharged(budget)
    if options.sql is None:
        run_shell(people, options, budget)
    elif options.preview:
        print_answer(preview(people, options.sql, options), options.format)
    elif options.price:
        print_price(people.price(options.sql, **arguments_of(options)), options.format)
    else:
        answer = people.sql(options.sql, **arguments_of(options), budget=budget, new_data=options.new_data)
        print_answer(answer, options.format, noise_intervals=options.noise_intervals)
