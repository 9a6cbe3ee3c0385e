"""The house rules that ``tools/house.py`` can count, and where names may be imported from."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"

# Modules below a package that are public themselves. All others are internal to their package.
PUBLIC_MODULES = {
    "hush.audit.canaries",
    "hush.audit.fairness",
    "hush.audit.membership",
    "hush.audit.testers",
    "hush.audit.training",
    "hush.estimators.pate",
    "hush.lab.anonymity",
    "hush.lab.attributes",
    "hush.lab.composition",
    "hush.lab.data_overlap",
    "hush.lab.divergence",
    "hush.lab.extraction",
    "hush.lab.histogram",
    "hush.lab.lessons",
    "hush.lab.lessons.graphs",
    "hush.lab.lessons.langevin",
    "hush.lab.lessons.local_sensitivity",
    "hush.lab.lessons.plots",
    "hush.lab.lessons.top_counts",
    "hush.lab.lessons.utility",
    "hush.lab.ntk",
    "hush.lab.radius",
    "hush.lab.ratios",
    "hush.lab.reconstruction",
    "hush.lab.slicing",
    "hush.lab.trained_attacks",
    "hush.statistics.hypotheses",
    "hush.training.scattering",
}

# Modules below a package that other packages of hush share. They are not public: no page, example or benchmark uses
# them, and they list nothing in `__all__`.
SHARED_MODULES = {
    "hush.accounting.budget",  # what a charge is; users pass a ledger's budget
    "hush.accounting.events",  # the public events are names of `hush.accounting`
    "hush.accounting.hold",  # who works on a reservation; users see it in `hush ledger pending`
    "hush.accounting.receipts",  # what a charge has cost; users read it from an answer
    "hush.data.tables.catalog",  # declarations of tables; users call `hush.table`
    "hush.report.page_parts",  # drawing, for the pages of `audit`, `cli` and `ledger`
    "hush.statistics.noise",  # exact totals to noisy ones, under arrays and SQL alike
}

# Scripts that measure the inside of a package, and so use a shared module.
MEASURES_INTERNALS = {
    "benchmarks/ledger.py": "hush.accounting.budget",  # it times reserve and commit, and fills a ledger row by row
}

# Rooms of fewer than 5 files.
SMALL_ROOMS: dict[str, str] = {}

# Public names, without `hush.lab`. Lower it when names go; a new one needs a page or an example that shows it.
# Of these, seven are tests of hypotheses, three are kinds of amplification and accounting that users name, and two are
# kinds of columns: `Date` and `HashedText`.
MOST_PUBLIC_NAMES = 310


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
house = _load(ROOT / "tools" / "house.py")
MODULES: dict[str, Path] = house.modules(SOURCE)


@cache
def counts() -> dict[str, Any]:
    """Return the counts. They take seconds, so collecting the tests must not wait for them."""
    return dict(house.count(ROOT))


@cache
def imported_names(text: str) -> list[tuple[str, str]]:
    """Return the module and the name of every ``from hush... import name``."""
    return [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hush"
        for alias in node.names
    ]


def is_public(module: str) -> bool:
    return module.count(".") <= 1 or module in PUBLIC_MODULES


def public_homes() -> dict[tuple[str, str], str]:
    """Return the public module of each public object, by the internal module that defines it and its name there."""
    homes = {}
    for public in sorted({*PUBLIC_MODULES, *(name for name in MODULES if name.count(".") == 1)}):
        tree = ast.parse(MODULES[public].read_text(encoding="utf-8"))
        exported = listed_names(tree)
        for node in ast.walk(tree):  # packages that load lazily import for type checkers only
            if isinstance(node, ast.ImportFrom) and node.module and not is_public(node.module):
                homes |= {(node.module, alias.name): public for alias in node.names if alias.name in exported}
    return homes


def listed_names(tree: ast.Module) -> set[str]:
    """Return what a module lists in ``__all__``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def test_folders_are_small_and_names_are_plain() -> None:
    assert counts()["folders of more than 15 files"] == 0
    assert counts()["files with a leading underscore"] == 0
    assert set(counts()["rooms of fewer than 5 files"]) == set(SMALL_ROOMS)


def test_there_are_no_import_cycles() -> None:
    assert counts()["cycles"] == []


def test_a_class_name_is_defined_once() -> None:
    assert counts()["homonyms"] == {}


def test_locals_say_what_they_hold() -> None:
    assert counts()["functions with a vague local, %"] < 8


def test_modules_have_a_test_of_their_name() -> None:
    assert counts()["modules with a test of their name, %"] >= 70


def test_packages_import_public_modules_of_each_other_only() -> None:
    wrong = [
        f"{name}: from {module} import {target}"
        for name, path in MODULES.items()
        for module, target in imported_names(path.read_text(encoding="utf-8"))
        if module.split(".")[:2] != name.split(".")[:2] and not is_public(module) and module not in SHARED_MODULES
    ]
    assert not wrong, "\n".join(wrong)


def test_packages_import_names_that_are_lent_out() -> None:
    """What a package takes from another is public there, or re-exported in its `__init__` for that purpose."""
    wrong = []
    for name, path in MODULES.items():
        for module, target in imported_names(path.read_text(encoding="utf-8")):
            if module.split(".")[:2] == name.split(".")[:2] or module not in MODULES:
                continue
            other = f"{module}.{target}"
            is_lent = target in lent_names(module) or other in PUBLIC_MODULES | SHARED_MODULES
            if MODULES[module].name == "__init__.py" and not is_lent and other in MODULES and module != "hush":
                wrong.append(f"{name}: {other} is a module")
            elif MODULES[module].name == "__init__.py" and not is_lent and other not in MODULES:
                wrong.append(f"{name}: {other}")
    assert not wrong, "\n".join(wrong)


@cache
def lent_names(package: str) -> frozenset[str]:
    """Return the names of a package that are public, re-exported as in ``import x as x``, or loaded lazily."""
    tree = ast.parse(MODULES[package].read_text(encoding="utf-8"))
    names = set(listed_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names.update(alias.name for alias in node.names if alias.asname == alias.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)  # the tables of `hush.lazy_loading`
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(names)


@pytest.mark.parametrize("folder", ["tests", "examples", "benchmarks", "reproductions"])
def test_public_objects_are_imported_from_their_public_module(folder: str) -> None:
    homes = public_homes()
    wrong = [
        f"{path.relative_to(ROOT)}: {target} is public in {homes[module, target]}, not in {module}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for module, target in imported_names(path.read_text(encoding="utf-8"))
        if (module, target) in homes
    ]
    assert not wrong, "\n".join(wrong)


def test_pages_import_public_modules_only() -> None:
    wrong = [
        f"{page.name}: {module}"
        for page in PAGES
        for module in re.findall(r"(?:from|import) (hush[\w.]*)", page.read_text(encoding="utf-8"))
        if not is_public(module)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted({name for name in MODULES if name.count(".") == 1} | PUBLIC_MODULES))
def test_public_modules_resolve_from_the_root(name: str) -> None:
    internal = ("__main__", "extras", "frames", "lazy_loading", "notebook", "numerics", "strict_json", "version")
    if name in {f"hush.{module}" for module in internal}:
        return
    if name in (
        "hush.training",
        "hush.training.scattering",
        "hush.lab.ntk",
        "hush.lab.lessons.utility",
        "hush.audit.training",
        "hush.runs",
    ):
        pytest.importorskip("torch")
    value: Any = importlib.import_module("hush")
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    assert value.__name__ == name


@pytest.mark.parametrize("name", sorted(PUBLIC_MODULES))
def test_public_modules_list_their_names(name: str) -> None:
    assert listed_names(ast.parse(MODULES[name].read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(SHARED_MODULES))
def test_shared_modules_are_not_public(name: str) -> None:
    assert not listed_names(ast.parse(MODULES[name].read_text(encoding="utf-8")))
    parent, _, leaf = name.rpartition(".")
    # `import hush.accounting.events`, `from hush.accounting.events import ...` or `from hush.accounting import events`
    pattern = re.compile(rf"\b{re.escape(name)}\b|from {re.escape(parent)} import [^\n]*\b{leaf}\b")
    readers = [
        *PAGES,
        *(path for folder in ("examples", "benchmarks", "reproductions") for path in (ROOT / folder).rglob("*.py")),
    ]
    users = {str(path.relative_to(ROOT)) for path in readers if pattern.search(path.read_text(encoding="utf-8"))}
    assert users == {script for script, module in MEASURES_INTERNALS.items() if module == name}


def test_public_names_do_not_grow() -> None:
    pytest.importorskip("torch")
    assert len(house.public_names()) <= MOST_PUBLIC_NAMES


def test_every_public_name_is_shown() -> None:
    """On a page, in an example, a benchmark or a reproduction; the reference lists all names and does not count."""
    pytest.importorskip("torch")
    scripts = [path for folder in ("examples", "benchmarks", "reproductions") for path in (ROOT / folder).rglob("*.py")]
    shown: set[str] = set()
    for path in [*PAGES, *scripts]:
        if path.name != "reference.md":
            shown.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    assert [path for path, name in house.public_names().items() if name not in shown] == []


@pytest.mark.slow
def test_the_table_of_counts_is_up_to_date() -> None:
    """The walks are left out: they take a minute, and depend on the versions of other packages."""
    pytest.importorskip("torch")
    table = (ROOT / "tools" / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (.+?) \| .+? \| (.+?) \|$", table, re.MULTILINE))
    expected = house.table_rows(counts() | house.count_prose(ROOT), len(house.public_names()))
    assert {name: rows.get(name) for name in expected} == expected, "run `python tools/house.py --write`"


def test_the_walks_lead_past_modules_that_exist() -> None:
    """ARCHITECTURE.md names modules by their path below the package, or below its second-last folder."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    modules = re.findall(r"`(\w+(?:/\w+)+)`", text.partition("## Five walks")[2])
    paths = {path.with_suffix("").as_posix() for path in SOURCE.rglob("*.py")}
    paths |= {path.as_posix() for path in SOURCE.rglob("*") if path.is_dir()}
    assert len(modules) > 30
    assert [module for module in modules if not any(path.endswith(f"/{module}") for path in paths)] == []


def test_packages_list_their_public_names_only() -> None:
    hush = importlib.import_module("hush")
    packages = {name.removeprefix("hush.") for name in MODULES if name.count(".") == 1}
    assert set(dir(hush)) <= {*hush.__all__, *packages}
    for name in ("hush.runs", "hush.lab", "hush.audit"):
        package = importlib.import_module(name)
        assert set(dir(package)) <= {*package.__all__, *(module.rpartition(".")[2] for module in PUBLIC_MODULES)}


def test_public_classes_have_an_example() -> None:
    pytest.importorskip("torch")
    without = []
    for path in house.exported_names():
        module, _, name = path.rpartition(".")
        value = getattr(importlib.import_module(module), name)
        if isinstance(value, type) and ">>>" not in (value.__doc__ or ""):
            without.append(path)
    assert without == []
