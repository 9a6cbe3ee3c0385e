"""Every block of docs/pitfalls.md is executed: what is said to be refused is refused, with the error that is quoted.

The first block is the beginning of each other one, which runs in a namespace of its own. Above each stands a line that
says what it has to do:

- ``**Wrong.** Refused: `words` `` or ``Caught by check: `words` ``: its last statement raises an error of hush's that
  begins with these words; for the second, by calling ``check``.
- ``**Wrong.** Stated: `words` ``: it runs, and the guarantee of ``private`` assumes these words.
- ``**Wrong.** Not seen: ...``: it runs, and has an assertion that shows the harm.
- ``**Right.**``: it runs, with an assertion.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from hush import HushError, Relation, accounting

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pitfalls.md"
SEVERITIES = ("Breaks the guarantee", "Spends privacy for nothing", "Costs accuracy or time")
MARKER = re.compile(
    r"\*\*(?:Right\.\*\*(?P<right>)|Wrong\.\*\* (?:"
    r"(?P<kind>Refused|Caught by check|Stated): `(?P<words>[^`\n]+)`$|(?P<unseen>Not seen): \S))",
    re.MULTILINE,
)
OVERVIEW = re.compile(r"(?<=<!-- overview: begin -->\n).*?(?=<!-- overview: end -->)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    title: str
    kind: str  # "Right", or what hush does
    words: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.title}: {self.kind}"


@dataclass
class Section:
    title: str
    severity: str = ""
    blocks: list[Block] = field(default_factory=list)


def read(source: str) -> tuple[str, list[Section]]:
    """Return the setup and all sections; complain of what is not as it should be."""
    parts = re.split(r"^### (.+)\n", source, flags=re.MULTILINE)
    (_, _, setup), *more = fenced(parts[0])
    assert not more, "only one block comes before the first section"
    sections, offset = [], parts[0].count("\n")
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        offset += 1
        sections.append(_section(title, text, offset))
        offset += text.count("\n")
    return setup, sections


def fenced(text: str) -> list[tuple[str, int, str]]:
    """Return each block with what stands between it and the one before, and the line it begins in."""
    found, end = [], 0
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        assert match[1] == "python", f"a block in {match[1]!r} is not executed"
        found.append((text[end : match.start()], text.count("\n", 0, match.start()) + 1, match[2]))
        end = match.end()
    return found


def _section(title: str, text: str, offset: int) -> Section:
    severity = re.match(r"\n\*([^*]+)\.\* ", text)
    assert severity, f"{title}: no severity"
    assert severity[1] in SEVERITIES, f"{title}: {severity[1]}"
    section = Section(title, severity[1])
    for before, line, code in fenced(text):
        markers = list(MARKER.finditer(before))
        assert len(markers) == 1, f"{title}: a block without a marker, or with two"
        (marker,) = markers
        kind = "Right" if marker["right"] is not None else marker["kind"] or marker["unseen"]
        section.blocks.append(Block(title, kind, marker["words"] or "", code, offset + line + 1))
    assert text.count("**Wrong.**") + text.count("**Right.**") == len(section.blocks), f"{title}: a marker alone"
    kinds = [block.kind for block in section.blocks]
    assert kinds[-1:] == ["Right"], f"{title}: ends with what is right"
    assert kinds.count("Right") == 1, f"{title}: one way that is right"
    assert len(kinds) > 1, f"{title}: nothing wrong"
    return section


def run(setup: str, block: Block) -> None:
    """Execute a block after the setup, and compare with what its marker says."""
    namespace: dict[str, Any] = {"__name__": "pitfalls"}
    *first, last = ast.parse("\n" * (block.line - 1) + block.text).body
    with torch.random.fork_rng(devices=[]):
        execute(ast.parse(setup).body, namespace)
        execute(first, namespace)  # none of it may raise
        if block.kind in ("Refused", "Caught by check"):
            if block.kind == "Caught by check":
                assert ast.unparse(last).startswith("training.check("), f"{block}: is not caught by check"
            with pytest.raises(HushError, match="^" + re.escape(block.words)):
                execute([last], namespace)
            return
        execute([last], namespace)
    assert any(isinstance(each, ast.Assert) for each in [*first, last]) or "check(" in block.text, f"{block}: no proof"
    if block.kind == "Stated":
        promised = namespace["private"].guarantee()
        assert block.words in (promised.method, *promised.assumptions)


def execute(statements: list[ast.stmt], namespace: dict[str, Any]) -> None:
    exec(compile(ast.Module(statements, []), str(PAGE), "exec"), namespace)


def overview(sections: list[Section]) -> str:
    lines = ["| pitfall | severity | hush |", "|---|---|---|"]
    for section in sections:
        seen = ", ".join(block.kind.lower() for block in section.blocks[:-1])
        anchor = re.sub(r"[^\w -]", "", section.title.lower()).replace(" ", "-")
        lines.append(f"| [{section.title}](#{anchor}) | {section.severity.lower()} | {seen} |")
    return "\n" + "\n".join(lines) + "\n\n"


SOURCE = PAGE.read_text(encoding="utf-8")
SETUP, SECTIONS = read(SOURCE)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Examples this small are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("block", [block for section in SECTIONS for block in section.blocks], ids=str)
@pytest.mark.slow
def test_blocks(block: Block) -> None:
    # False alarms: 7e-8 for "calls > 10", P(Binomial(200, 1 / 4) <= 20), and 2e-11 for the deviation of 4,000 values of
    # noise, by its chi-squared law (7.5 % off). 20 samples are of one size with 0.065^19 = 3e-23, and eight weights of
    # two runs within 1e-4 of each other with 0.0014^8 = 1e-23. The setup seeds what torch draws.
    run(SETUP, block)


def test_the_overview_is_that_of_the_sections() -> None:
    found = OVERVIEW.search(SOURCE)
    assert found
    assert found[0] == overview(SECTIONS)


def test_no_two_sections_have_one_title() -> None:
    titles = [section.title for section in SECTIONS]
    assert len(set(titles)) == len(titles) >= 18
    assert {section.severity for section in SECTIONS} == set(SEVERITIES)


def test_numbers_of_the_prose() -> None:
    """Each is computed, and is there in the words that are given."""
    rate, steps = 256 / 60_000, 3516
    run = accounting.SelfComposedEvent(accounting.PoissonSampledEvent(accounting.GaussianEvent(1.1), rate), steps)

    def epsilon(event: accounting.Event = run, delta: float = 1e-5, **settings: Any) -> float:
        return accounting.PldAccountant(**settings).compose(event).epsilon(delta)

    half = accounting.SelfComposedEvent(accounting.PoissonSampledEvent(accounting.GaussianEvent(0.55), rate), steps)
    numbers = {
        "epsilon 1.13": epsilon(),
        "epsilon is 7.82": epsilon(half),
        "with noise 1.1 cost 20.6": epsilon(accounting.SelfComposedEvent(accounting.GaussianEvent(1.1), 15)),
        "epsilon 1.13 becomes 12.5": epsilon(accounting.GroupEvent(run, 8)),
        "epsilon 1.13 becomes 5.42": epsilon(accounting.GroupEvent(run, 4)),
        "and 1.93": epsilon(relation=Relation.REPLACE),
        "epsilon 0.44": epsilon(delta=1e-2),
    }
    for size, text in {64: "0.0093,", 256: "0.0028,", 1024: "0.00099", 4096: "0.00040"}.items():
        noise = accounting.calibrate_noise(
            epsilon=3.0, delta=1e-5, sampling_rate=size / 60_000, num_steps=round(900_000 / size)
        )
        numbers[text] = noise / size
    prose = " ".join(SOURCE.split())
    for text, number in numbers.items():
        assert text in prose
        (digits,) = re.findall(r"[\d.]*\d", text)[-1:]
        assert float(digits) == float(f"{number:.{len(digits.replace('.', '').lstrip('0'))}g}"), text


class TestTheReader:
    """The tests above are only as good as what reads the page for them."""

    GOOD = (
        "# Page\n\n```python\nimport hush\n```\n\n### One\n\n*Breaks the guarantee.* Why.\n\n"
        "**Wrong.** Refused: `noise_multiplier=-1`\n\n```python\nhush.accounting.GaussianEvent(-1.0)\n```\n\n"
        "**Right.** So.\n\n```python\nassert hush\n```\n"
    )

    def test_finds_sections_and_lines(self) -> None:
        setup, (section,) = read(self.GOOD)
        assert setup == "import hush\n"
        assert (section.title, section.severity) == ("One", "Breaks the guarantee")
        assert [(block.kind, block.words) for block in section.blocks] == [
            ("Refused", "noise_multiplier=-1"),
            ("Right", ""),
        ]
        lines = self.GOOD.splitlines()
        assert all(lines[block.line - 1] == block.text.splitlines()[0] for block in section.blocks)
        for block in section.blocks:
            run(setup, block)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("**Wrong.** Refused: `noise_multiplier=-1`\n", "Wrong, of course.\n"),
            ("Refused: `noise_multiplier=-1`", "Refused."),
            ("Refused: ", "Laughed at: "),
            ("**Right.** So.", "So."),
            ("*Breaks the guarantee.* ", ""),
            ("*Breaks the guarantee.*", "*Is bad.*"),
            ("```python\nassert hush", "```py\nassert hush"),
            ("```python\nassert hush\n```\n", ""),
            ("### One", "```python\n1\n```\n### One"),
        ],
    )
    def test_notices_what_has_no_marker(self, old: str, new: str) -> None:
        assert old in self.GOOD
        with pytest.raises((AssertionError, ValueError)):
            read(self.GOOD.replace(old, new, 1))

    @pytest.mark.parametrize(
        ("kind", "words", "text"),
        [
            ("Refused", "noise_multiplier=-1", "x = 1\n"),  # nothing is raised
            ("Refused", "clip_norm=", "hush.accounting.GaussianEvent(-1.0)\n"),  # something else is
            ("Refused", "refused", "raise ValueError('refused')\n"),  # not by hush
            ("Refused", "noise_multiplier=-1", "hush.accounting.GaussianEvent(-1.0)\nx = 1\n"),  # not by what is last
            ("Caught by check", "noise_multiplier=-1", "hush.accounting.GaussianEvent(-1.0)\n"),  # not by check
            ("Not seen", "", "x = 1\n"),  # no harm is shown
            ("Not seen", "", "assert hush is None\n"),
            ("Not seen", "", "hush.accounting.GaussianEvent(-1.0)\n"),
            ("Right", "", "x = 1\n"),
            ("Right", "", "hush.accounting.GaussianEvent(-1.0)\n"),
        ],
    )
    def test_notices_what_does_not_do_as_it_says(self, kind: str, words: str, text: str) -> None:
        with pytest.raises((AssertionError, HushError, ValueError, pytest.fail.Exception)):
            run("import hush\n", Block("One", kind, words, text, 1))

    def test_notices_what_is_not_stated(self) -> None:
        text = "private = start(nn.Linear(4, 2))\nassert private\n"
        words = "the loss of an example depends on that example only, on rare contents, too"
        run(SETUP, Block("One", "Stated", words, text, 1))
        with pytest.raises(AssertionError):
            run(SETUP, Block("One", "Stated", "test randomness", text, 1))
