"""The pages on the lectures: every item has a mark, and lines that run and print something, or a reason.

A page, such as ``docs/lectures/000.md``, has tables of items with the columns `COLUMNS`. An item that is marked "works"
or "different" has lines of its own in a ``pycon`` block. They begin with a comment, ``>>> # 7. Global sensitivity``,
and end at the next such comment. Items are numbered from 1 in the order of the tables.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs" / "lectures"
PAGES = sorted(path.stem for path in DOCS.glob("[0-9]*.md"))

# How many items each set of notes has.
NUM_ITEMS = {"000": 71, "001": 36, "002": 55, "003": 105, "004": 18}

TERM_COLUMNS = "| term | in hush | what holds |\n|---|---|---|\n"
COLUMNS = "| | line | in the notes | mark | in hush |\n|---|---|---|---|---|\n"
MARKS_WITH_CODE, MARKS_WITH_REASON = {"works", "different"}, {"concept", "not here"}


@dataclass(frozen=True)
class Item:
    number: int
    line: int
    term: str
    mark: str
    text: str


def items(page: str) -> list[Item]:
    rows = []
    for table in re.findall(re.escape(COLUMNS) + r"((?:\|.*\n)+)", page):
        for row in table.splitlines():
            number, line, term, mark, text = (cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1])
            rows.append(Item(int(number), int(line), term, mark, text))
    return rows


def lines(page: str) -> dict[int, list[doctest.Example]]:
    """Return the examples of each item, by its number."""
    examples: dict[int, list[doctest.Example]] = {}
    for block in re.findall(r"^```pycon\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        parts = re.split(r"^>>> # (\d+)\. \S.*\n", block, flags=re.MULTILINE)  # what stands before belongs to no item
        for number, text in zip(parts[1::2], parts[2::2], strict=True):
            assert int(number) not in examples, f"{number}: two places have its lines"
            examples[int(number)] = doctest.DocTestParser().get_examples(text)
    return examples


@dataclass(frozen=True)
class Term:
    """A row of ``names.md``."""

    term: str
    path: str
    statement: str

    @property
    def docstring(self) -> str:
        """The words of the documentation of the object, in lower case."""
        names = self.path.split(".")
        value: Any = importlib.import_module(names[0])
        for index, name in enumerate(names[1:], 2):
            if not hasattr(value, name):
                importlib.import_module(".".join(names[:index]))
            value = getattr(value, name)
        return " ".join((inspect.getdoc(value) or "").lower().split())


def terms(page: str) -> list[Term]:
    rows = []
    for table in re.findall(re.escape(TERM_COLUMNS) + r"((?:\|.*\n)+)", page):
        for row in table.splitlines():
            term, path, statement = (cell.strip() for cell in row.split("|")[1:-1])
            rows.append(Term(term, path.strip("`"), statement))
    return rows


def complaints(page: str, num_items: int) -> list[str]:
    """Return what is wrong with a page."""
    found, code = items(page), lines(page)
    numbers = [item.number for item in found]
    wrong = [] if numbers == list(range(1, num_items + 1)) else [f"items {numbers}, not 1 to {num_items}"]
    wrong += [f"{number}: lines of an item that is not in a table" for number in code if number not in numbers]
    for item in found:
        examples = code.get(item.number, [])
        if item.mark in MARKS_WITH_CODE:
            source = "".join(example.source for example in examples)
            names = set(re.findall(r"[A-Za-z_]\w+", " ".join(re.findall(r"`([^`]+)`", item.text)))) - {"hush"}
            if not any(example.want for example in examples):
                wrong.append(f"{item.number}: no line that prints")
            elif not names & set(re.findall(r"\w+", source)):
                wrong.append(f"{item.number}: its lines use none of {sorted(names)}")
        elif item.mark not in MARKS_WITH_REASON:
            wrong.append(f"{item.number}: {item.mark!r} is no mark")
        elif len(item.text) < 20:
            wrong.append(f"{item.number}: no reason")
        elif examples:
            wrong.append(f"{item.number}: lines of an item that is marked {item.mark!r}")
    return wrong


def test_pages_are_those_of_the_notes() -> None:
    assert set(PAGES) == set(NUM_ITEMS)


@pytest.mark.parametrize("name", PAGES)
def test_every_item_has_a_mark_and_lines_or_a_reason(name: str) -> None:
    assert complaints((DOCS / f"{name}.md").read_text(encoding="utf-8"), NUM_ITEMS[name]) == []


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    """A figure or a script that was renamed leaves links behind."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.slow  # 40 seconds of CPU, for lines whose subjects have quick tests of their own
@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_lines_run(path: Path) -> None:
    """Random numbers: each page draws from a `TestSource`, or prints what holds for almost every draw (fixed key)."""
    torch = pytest.importorskip("torch")
    num_threads = torch.get_num_threads()
    text = path.read_text(encoding="utf-8")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    # A blank line ends what an example prints, so the fence after it is prose.
    try:
        failures, tries = doctest.testfile(str(path), module_relative=False, encoding="utf-8", optionflags=flags)
    finally:
        torch.set_num_threads(num_threads)  # the pages take one: they are about small matrices
    assert failures == 0
    assert tries > 10 or path.stem == "README"
    assert set(re.findall(r"^```(.*)$", text, re.MULTILINE)) <= {"pycon", ""}, "other blocks would not be executed"


def test_the_list_of_pages_counts_their_items() -> None:
    rows = re.findall(
        r"^\| \[(\d+)\]\(\1\.md\) \| .* \| (\d+) \|$", (DOCS / "README.md").read_text(encoding="utf-8"), re.M
    )
    assert {name: int(number) for name, number in rows} == NUM_ITEMS


class TestNames:
    """The page from the terms of the notes to those of hush."""

    PAGE = (DOCS / "names.md").read_text(encoding="utf-8")
    TERMS = terms(PAGE)

    def test_every_term_has_lines_that_print(self) -> None:
        parts = re.split(r"^>>> # ([^:\n]+).*\n", self.PAGE, flags=re.MULTILINE)
        examples = {
            term: doctest.DocTestParser().get_examples(text.partition("```")[0])
            for term, text in zip(parts[1::2], parts[2::2], strict=True)
        }
        assert len({row.term for row in self.TERMS}) == len(self.TERMS) > 60
        assert sorted(examples) == sorted(row.term for row in self.TERMS)
        assert [term for term, lines_of in examples.items() if not any(example.want for example in lines_of)] == []

    @pytest.mark.parametrize("row", TERMS, ids=lambda row: row.term)
    def test_a_search_in_the_documentation_finds_it(self, row: Term) -> None:
        pytest.importorskip("torch")
        assert re.search(rf"\b{re.escape(row.term.lower())}s?\b", row.docstring)

    def test_what_is_corrected_says_what_holds(self) -> None:
        corrected = [row for row in self.TERMS if row.statement.startswith("*Corrected*")]
        assert len(corrected) >= 22
        assert all(len(row.statement) > 40 for row in corrected)


class TestTheReader:
    """The tests above are only as good as what reads the pages for them."""

    GOOD = (
        COLUMNS + "| 1 | 57 | global sensitivity | works | `Sensitivity` |\n"
        "| 2 | 60 | proofs | concept | A proof: there is nothing to run. |\n\n"
        "```pycon\n>>> import hush\n>>> # 1. Global sensitivity\n>>> Sensitivity.count().l1\n1.0\n\n```\n"
    )

    def test_accepts_what_is_complete(self) -> None:
        assert complaints(self.GOOD, 2) == []

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("| 2 |", "| 3 |"),
            ("| works |", "| fine |"),
            ("| concept |", "| works |"),
            ("| works |", "| concept |"),
            ("A proof: there is nothing to run.", "-"),
            ("# 1. Global", "# Global"),
            ("# 1. Global", "# 7. Global"),
            ("1.0\n", ""),
            ("Sensitivity.count", "Other.count"),
        ],
    )
    def test_notices_what_is_missing(self, old: str, new: str) -> None:
        assert old in self.GOOD
        assert complaints(self.GOOD.replace(old, new, 1), 2)
