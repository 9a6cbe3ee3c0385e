"""The shell of `hush query`: statements from a terminal or from a pipe.

On a terminal, the price of a statement is shown first, and Enter confirms it. Errors do not end the
session, Ctrl-C drops a statement, and Ctrl-D leaves. From a pipe, there are no prompts and no prices, and the first
error ends everything with its exit status.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hush.cli.commands.query.flags import add_flags
from hush.cli.commands.query.history import History, history_file
from hush.cli.commands.query.printing import print_answer, print_price
from hush.cli.commands.query.question import arguments_of, preview
from hush.cli.commands.query.shell_commands import run_command
from hush.cli.commands.query.statements import first_statement, is_blank
from hush.cli.messages import in_flags
from hush.cli.terminal import wrapped
from hush.errors import HushError

if TYPE_CHECKING:
    from hush.ledger import LedgerBudget
    from hush.sql import Table

_PROMPT, _MORE, _CONFIRM = "hush> ", "  ... ", "Ask? [Y/n] "


def run_shell(people: Table, options: argparse.Namespace, budget: LedgerBudget | None) -> None:
    """Answer statements until the input ends."""
    shell = _Shell(people, options, budget)
    if sys.stdin.isatty():
        before = signal.signal(signal.SIGINT, shell.interrupt)
        try:
            shell.talk()
        finally:
            signal.signal(signal.SIGINT, before)
    else:
        shell.read(sys.stdin)


class _Shell:
    def __init__(self, people: Table, options: argparse.Namespace, budget: LedgerBudget | None) -> None:
        self._people, self._options, self._budget = people, options, budget
        self._history: History | None = None
        self._pending = ""  # the beginning of a statement
        self._is_asking = False  # so that something may have been charged
        self._is_interrupted = False
        self._is_over = False

    def read(self, lines: Iterable[str]) -> None:
        """Answer statements from a pipe. The last one needs no semicolon."""
        for line in lines:
            self._take(line.rstrip("\n"))
            if self._is_over:
                return
        if not is_blank(self._pending):
            self._answer(self._pending)

    def talk(self) -> None:
        """Answer statements from a terminal."""
        self._history = History()
        tables = ", ".join(self._people.catalog.tables)
        _say(f"Tables: {tables}. Statements end with ;. \\? lists commands, Ctrl-D leaves.")
        if self._history.is_stored:
            _say(f"History: {history_file()} has your queries, not their answers. Queries can name people.")
        if self._budget is not None:
            _say(f"The budget {self._budget.name}. {self._budget.state()}")
            _say("An answer that the ledger has already is free, whatever its price says.")
        while not self._is_over:
            with self._going_on():
                try:
                    self._take(self._history.read(_MORE if self._pending.strip() else _PROMPT))
                except EOFError:
                    print()
                    return

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Keep errors from ending the session. After an error or Ctrl-C, the statement is dropped."""
        try:
            yield
        except (KeyboardInterrupt, Exception) as error:
            _say(self._message(error))
            self._pending, self._is_asking, self._is_interrupted = "", False, False

    def _message(self, error: BaseException) -> str:
        if self._is_interrupted:  # an engine may have made an error of its own of it
            paid = " If it was charged, ask again: the same question is not charged twice." if self._is_asking else ""
            return f"\nCancelled.{paid}"
        if isinstance(error, HushError):
            parser = argparse.ArgumentParser()
            add_flags(parser)
            return f"hush query: {in_flags(str(error), parser, self._options)}"
        # A bug of ours, whose message may hold data.
        return f"hush query: {type(error).__name__}, whose message is hidden, because it may quote a record"

    def interrupt(self, *_: object) -> None:
        """Drop the statement, as Ctrl-C does."""
        self._is_interrupted = True
        raise KeyboardInterrupt

    def _take(self, line: str) -> None:
        """Add a line to the statement, and answer what is complete."""
        if is_blank(self._pending) and line.lstrip().startswith("\\"):
            self._is_over = run_command(line, self._people, self._options)
            return
        self._pending += line + "\n"
        while (parts := first_statement(self._pending)) is not None:
            statement, self._pending = parts
            if not is_blank(statement):
                self._answer(statement.strip())

    def _answer(self, statement: str) -> None:
        """Answer a statement; from a terminal, after its price was confirmed."""
        if self._history is not None:
            self._history.add(f"{statement};")
        if self._options.preview:
            print_answer(preview(self._people, statement, self._options), self._options.format)
            return
        arguments = arguments_of(self._options)
        if self._options.price or self._history is not None:
            print_price(self._people.price(statement, **arguments), self._options.format)
        if self._options.price or not self._is_confirmed():
            return
        self._is_asking = self._budget is not None
        answer = self._people.sql(statement, **arguments, budget=self._budget, new_data=self._options.new_data)
        self._is_asking = False
        print_answer(answer, self._options.format, noise_intervals=self._options.noise_intervals)
        if answer.receipt is not None and self._options.format == "json":  # otherwise it is among the notes
            _say(str(answer.receipt))

    def _is_confirmed(self) -> bool:
        return self._history is None or self._history.read(_CONFIRM).strip().casefold() in ("", "y", "yes")


def _say(line: str) -> None:
    print(wrapped(line), file=sys.stderr, flush=True)
