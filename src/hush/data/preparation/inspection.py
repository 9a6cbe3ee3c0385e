"""Looks at what is public about a table, and says all that is missing at once, before anything is spent.

Public are the names and types of columns, the number of rows, and which columns hold text, dates or truth values
(`read_numbers` says by which rule). From these, every column gets a kind:

| column | kind |
|---|---|
| of numbers | `Numeric`; a boolean has the bounds 0 and 1 |
| of dates | `Date` |
| of text | `Category` with values to learn where there are enough rows for that, otherwise `HashedText` |
| of text, with a name that promises sentences | `HashedText` |
| of nested or other types | `Ignore` |
| with a name that promises ids | none: it is asked about |

Declarations come first. What is asked: names that do not exist, with the closest ones; ids; the names of groups; labels
that are not true or false; the kind of a target whose numbers could be classes; classes that are too many or too rare
to be learned from so few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hush.data.preparation.names import (
    closest,
    identifies_people,
    looks_like_classes,
    looks_like_free_text,
    looks_like_id,
    may_be_classes,
)
from hush.data.preparation.questions import OpenQuestions, Question
from hush.data.tables.catalog import ROW
from hush.data.tables.columns import Category, Column, Date, HashedText, Ignore, Numeric
from hush.data.tables.raw_data import RawData
from hush.data.tables.schema import Schema
from hush.data.tables.table import DATE, NUMBER, OTHER, TEXT, UNTYPED, TableData

CLASSIFICATION, REGRESSION, MULTI_LABEL = TASKS = ("classification", "regression", "multi-label")
_FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL", "REAL")
_TRUTHS = ("false", "true")
_VALUE_FEATURES = 32  # inputs of a text column whose values cannot be learned
_ENOUGH = 8  # values are learned if one that an eighth of the units have would probably be found
_RARE = 0.05  # the share of units from which it is worth saying that a class with so many may not be found
# Classes are learned if three of one size would probably all be found: two would be too near to a run that finds one.
_CLASSES_TO_FIND = 3
_SHOWN = 20

FewestUnits = Callable[[int, int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What follows from public facts.

    Attributes:
        schema: The declarations, with a kind for every column.
        target: The target; None if there are several labels.
        notes: What was decided without being asked, in sentences.
    """

    schema: Schema
    target: str | None
    notes: tuple[str, ...] = ()


def inspect(
    data: RawData,
    *,
    target: str | None,
    schema: Schema | None,
    unit: str | None,
    groups: Sequence[str],
    task: str | None,
    fewest_units: FewestUnits,
) -> Inspected:
    """Return a kind for every column of a table. Raise `OpenQuestions` with all that is missing, if anything is.

    Args:
        data: From `open_data`. Images need no inspection.
        target: The column to predict, or several, separated by commas.
        schema: The declarations.
        unit: The column of the privacy unit.
        groups: Columns to compare accuracy by.
        task: One of ``TASKS``; None to let types decide.
        fewest_units: How many units a value needs to be found, by the numbers of columns whose bounds and values are
            learned.
    """
    declared = schema or Schema()
    if not isinstance(data, TableData):
        return Inspected(schema=declared, target=target)
    targets = _targets(data, target or declared.target, declared.labels, task)
    job = _Inspection(data, declared, targets, unit or declared.unit, (*groups, *declared.groups), task, fewest_units)
    return job.run()


def _targets(data: TableData, target: str | None, labels: tuple[str, ...], task: str | None) -> tuple[str, ...]:
    """Return the columns to predict. A comma separates several, unless it is part of a column's name."""
    if target is None or target in (data.columns or ()):
        return labels or (() if target is None else (target,))
    return tuple(name.strip() for name in target.split(",") if name.strip())


@dataclass(slots=True)
class _Inspection:
    """One look at a table, which collects questions and notes."""

    data: TableData
    declared: Schema
    targets: tuple[str, ...]
    unit: str | None
    groups: tuple[str, ...]
    task: str | None
    fewest_units: FewestUnits
    questions: list[Question] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    texts: frozenset[str] = frozenset()
    dates: frozenset[str] = frozenset()

    def run(self) -> Inspected:
        """Return the result, or raise all questions."""
        self._check_names()
        self._read_kinds()
        columns = {name: self._kind(name) for name in self._features()}
        self._ask_about_ids([name for name, column in columns.items() if column is None])
        self._ask_about_groups()
        known = {name: column for name, column in columns.items() if column is not None}
        schema = self._with_target({**self._declared_columns(), **self._with_texts(known)})
        if self.questions:
            raise OpenQuestions(self.questions)
        return Inspected(schema=schema, target=None if schema.labels else self.targets[0], notes=tuple(self.notes))

    def _check_names(self) -> None:
        """Ask about every name that no column has, and go on with the names that are meant."""
        if not self.targets:
            text = "the target is missing. --target names the column to predict, one of " + self._listed()
            self.questions.append(Question(text=text, add=("--target", "COLUMN")))
        roles = [("--target", self.targets), ("--unit", () if self.unit in (None, ROW) else (str(self.unit),))]
        roles += [("--group", self.groups), ("a declaration", tuple(self.declared.columns))]
        for role, names in roles:
            for name in dict.fromkeys(names):
                if name not in self.data.columns:
                    self.questions.append(self._unknown(role, name))
        self._correct_names()

    def _correct_names(self) -> None:
        """Put the closest name in place of a wrong one, as the corrected command does: it must raise no new question.

        A column that is declared under its right name, too, keeps that declaration.
        """
        self.targets, self.groups = tuple(map(self._meant, self.targets)), tuple(map(self._meant, self.groups))
        self.unit = self.unit if self.unit in (None, ROW) else self._meant(str(self.unit))
        declared = self.declared.columns
        columns = {self._meant(name): column for name, column in declared.items()}
        right = {name: column for name, column in declared.items() if name in self.data.columns}
        self.declared = replace(self.declared, columns={**columns, **right})

    def _meant(self, name: str) -> str:
        similar = () if name in self.data.columns else closest(name, self.data.columns)
        return similar[0] if similar else name

    def _unknown(self, role: str, name: str) -> Question:
        similar = closest(name, self.data.columns)
        which = (
            f"did you mean {' or '.join(map(repr, similar))}?" if similar else "one of the columns " + self._listed()
        )
        right = similar[0] if similar else ("COLUMN" if role in ("--target", "--unit") else None)
        return Question(text=f"{role} names {name!r}, which is no column: {which}", wrong=name, right=right)

    def _listed(self) -> str:
        names = self.data.columns
        return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")

    def _read_kinds(self) -> None:
        """Find out which columns hold text, and which dates: by more than half of all rows, or of all units."""
        if (unit := self._voter()) is not None:
            self.data = self.data.with_ids(unit)  # as the run reads them: the same rows count there
        open_kinds = [name for name in self.data.columns if self.data.kind(name) in (UNTYPED, TEXT)]
        untyped = [name for name in open_kinds if self.data.kind(name) == UNTYPED]
        texts = {*self.data.table.text_columns(untyped, unit), *(name for name in open_kinds if name not in untyped)}
        dates = self.data.table.date_columns(sorted(texts), unit)
        typed = [name for name in self.data.columns if self.data.kind(name) == DATE]
        self.dates, self.texts = frozenset([*dates, *typed]), frozenset(texts - set(dates))

    def _features(self) -> list[str]:
        return [name for name in self.data.columns if name not in (*self.targets, self.unit)]

    def _declared_columns(self) -> dict[str, Column]:
        return {name: column for name, column in self.declared.columns.items() if name not in self.targets}

    def _kind(self, name: str) -> Column | None:
        """Return the kind of a column; None if it is asked about."""
        column = self.declared.columns.get(name)
        if column is not None:
            return self._checked(name, column)
        if name in self.groups:
            return Ignore()
        declared_type = self.data.declared_type(name)
        if looks_like_id(name) or declared_type == "UUID":
            return None
        if self.data.kind(name) == OTHER:
            self.notes.append(f"column {name!r} is left out: its type is neither numbers, nor text, nor dates")
            return Ignore()
        if name in self.dates:
            return Date()
        if name in self.texts:
            return HashedText() if looks_like_free_text(name) else Category()
        return Numeric(lower=0, upper=1) if declared_type == "BOOLEAN" else Numeric()

    def _checked(self, name: str, column: Column) -> Column:
        """Return a declared kind. Ask about numbers that are text."""
        is_number = isinstance(column, Numeric) and not isinstance(column, Date)
        if is_number and name in self.dates and self.data.kind(name) != DATE:
            assert isinstance(column, Numeric)
            return Date(lower=column.lower, upper=column.upper)
        if is_number and name in self.texts:
            text = f"column {name!r} is declared as numbers, and holds text: --category {name} instead"
            self.questions.append(Question(text=text, add=("--category", name)))
        return column

    def _ask_about_ids(self, names: Sequence[str]) -> None:
        """Ask what columns are that look like ids: one may say who is protected, none should be an input."""
        open_unit = self.unit is None
        for name in names:
            is_unit = open_unit and identifies_people(name)
            open_unit = open_unit and not is_unit
            kind = f"column {name!r} looks like ids or names, by its name or type"
            if is_unit:
                text = f"{kind}. If it says who a row is about: --unit {name}. If not: --ignore {name}"
            else:
                text = f"{kind}: --ignore {name}, or declare it, such as --category {name}"
            self.questions.append(Question(text=text, add=("--unit" if is_unit else "--ignore", name)))

    def _ask_about_groups(self) -> None:
        """Ask for the values of groups: a name that is shown as it is in the data may belong to a single person.

        A category without values is an answer, too: its values are learned privately.
        """
        for name in dict.fromkeys(self.groups):
            is_open = name in self.data.columns and not isinstance(self.declared.columns.get(name), Category)
            if is_open and self._task() in (None, CLASSIFICATION):
                text = (
                    f"--group {name} shows the names of groups, and a rare one may be that of a single person. Name "
                    f"them in place of A,B: --category {name}=A,B. Or learn them privately: --category {name}"
                )
                self.questions.append(Question(text=text, add=("--category", f"{name}=A,B")))

    def _with_texts(self, columns: Mapping[str, Column]) -> dict[str, Column]:
        """Return the columns, with hashed text where values could not be learned; note what was decided."""
        learned = [
            name for name, column in columns.items() if column == Category() and name not in self.declared.columns
        ]
        result, limit = dict(columns), self._fewest(columns)
        if learned and limit * _ENOUGH > self._num_units():
            result |= dict.fromkeys(learned, HashedText(num_features=_VALUE_FEATURES))
        self._note("text, whose values are learned", result, lambda column: column == Category())
        self._note("text, by a public hash of its words", result, lambda column: isinstance(column, HashedText))
        self._note("dates", result, lambda column: isinstance(column, Date))
        return result

    def _note(self, what: str, columns: Mapping[str, Column], chosen: Callable[[Column], bool]) -> None:
        names = [name for name, column in columns.items() if chosen(column) and name not in self.declared.columns]
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            self.notes.append(f"taken as {what}: {', '.join(names[:_SHOWN])}{more}")

    def _fewest(self, columns: Mapping[str, Column]) -> float:
        """Return how many units a value needs to be found."""
        incomplete = [column for column in columns.values() if not column.complete]
        numbers = sum(isinstance(column, Numeric) for column in incomplete)
        learns_classes = self.declared.classes is None and self._task() == CLASSIFICATION
        return self.fewest_units(numbers, len(incomplete) - numbers + learns_classes)

    def _num_units(self) -> int:
        voter = self._voter()
        return self.data.table.num_rows if voter is None else self.data.table.num_values(voter)

    def _voter(self) -> str | None:
        """Return the column whose values have one vote each on what a column holds; None if rows have it."""
        return self.unit if self.unit in self.data.columns else None

    def _task(self) -> str | None:
        """Return what the target is; None if its type leaves it open."""
        if self.task is not None:
            return self.task
        if self.declared.classes is not None:
            return CLASSIFICATION
        if len(self.targets) != 1:
            return MULTI_LABEL if self.targets else None
        name = self.targets[0]
        if self.declared.target_range is not None or self._declared_range(name) is not None:
            return REGRESSION
        if name not in self.data.columns:
            return None
        if name in self.dates:
            return REGRESSION
        declared_type = self.data.declared_type(name)
        if name in self.texts or declared_type == "BOOLEAN":
            return CLASSIFICATION
        if self.data.kind(name) == NUMBER and declared_type.startswith(_FRACTIONS):
            return REGRESSION
        return CLASSIFICATION if looks_like_classes(name) else None

    def _with_target(self, columns: dict[str, Column]) -> Schema:
        """Return the schema with what is predicted; ask where that is open."""
        schema, task = replace(self.declared, columns=columns), self._task()
        if task not in (None, CLASSIFICATION):
            for name in dict.fromkeys(self.groups):
                text = f"--group {name} compares the accuracy of classes, and --task {task} has none"
                self.questions.append(Question(text=text, wrong=name))
        if any(name not in self.data.columns for name in self.targets) or not self.targets:
            return schema
        if task == MULTI_LABEL:
            self._ask_about_labels()
            return replace(schema, target=None, labels=self.targets, classes=None)
        if len(self.targets) > 1:
            text = f"--target names {len(self.targets)} columns: --task {MULTI_LABEL} predicts whether each is true"
            self.questions.append(Question(text=text, wrong=self.task, right=MULTI_LABEL))
        return self._with_one_target(schema, self.targets[0], task)

    def _ask_about_labels(self) -> None:
        """Ask about labels that are not true or false: all of their rows would be false, or all missing."""
        names = [name for name in dict.fromkeys(self.targets) if self.data.kind(name) != OTHER]
        for name in self.data.table.other_columns(names, self._voter()):
            text = (
                f"label {name!r} holds values other than true, yes, 1, false, no and 0: leave it out of --target, or "
                "put a column of true and false in its place"
            )
            self.questions.append(Question(text=text, wrong=name))

    def _with_one_target(self, schema: Schema, name: str, task: str | None) -> Schema:
        if task is None:
            text = (
                f"target {name!r} holds numbers: --task {REGRESSION} predicts the number, --task {CLASSIFICATION} "
                "takes each number as a class, and --classes A,B,... names the classes, at no cost"
            )
            # Groups are compared by the accuracy of classes.
            is_compared = not set(self.groups).isdisjoint(self.data.columns)
            likely = CLASSIFICATION if is_compared or may_be_classes(name) else REGRESSION
            self.questions.append(Question(text=text, add=("--task", likely)))
        if task == REGRESSION:
            return self._with_range(schema, name)
        if task == CLASSIFICATION and schema.classes is None:
            if self.task is None and name not in self.texts and self.data.declared_type(name) != "BOOLEAN":
                self.notes.append(f"target {name!r} is taken for classes, by its name; else: --task {REGRESSION}")
            if self.data.declared_type(name) == "BOOLEAN":
                return replace(schema, classes=_TRUTHS)
            self._ask_for_classes(schema, name)
        return schema

    def _with_range(self, schema: Schema, name: str) -> Schema:
        if name in self.texts:
            text = f"target {name!r} holds text: --task {REGRESSION} needs numbers"
            self.questions.append(Question(text=text, wrong=REGRESSION, right=CLASSIFICATION))
        declared_range = self._declared_range(name)
        if declared_range is not None:
            return replace(schema, target_range=declared_range)
        return replace(schema, target_range=schema.target_range or (Date() if name in self.dates else Numeric()))

    def _declared_range(self, name: str) -> Numeric | None:
        """Return the bounds that are declared for the target. A template declares it as numeric, without bounds."""
        column = self.declared.columns.get(name)
        is_declared = isinstance(column, Numeric) and (column.lower is not None or column.upper is not None)
        return column if is_declared and isinstance(column, Numeric) else None

    def _ask_for_classes(self, schema: Schema, name: str) -> None:
        """Ask for classes that so few units could not show: before their share of the budget is spent on it."""
        fewest, num_units = self._fewest(schema.columns), self._num_units()
        if _CLASSES_TO_FIND * fewest > num_units:
            text = (
                f"the classes of {name!r} are not declared, and {num_units:,} units are too few to learn them: each "
                f"needs about {fewest:,.0f}. Name them in place of A,B: --classes A,B"
            )
            self.questions.append(Question(text=text, add=("--classes", "A,B")))
        elif fewest > _RARE * num_units:
            self.notes.append(
                f"classes of {name!r} that fewer than about {fewest:,.0f} units have may not be found, and their rows "
                "do not count: --classes A,B,... names all, at no cost"
            )
