"""Count how easy the package is to find one's way in: ``python tools/house.py [--json] [--walks] [--write]``.

- Folders: how many Python files each has.
- Cycles: sets of modules that import each other at run time.
- Homonyms: class names that are defined in more than one module. A leading underscore makes no difference.
- Small rooms: folders without sub-packages that hold fewer than 5 files.
- Public names: what the packages' ``__all__`` offer, each object once. ``hush.lab`` is counted apart: it is outside the
  promise of stability. A module without ``__all__`` is not public; tests/meta/test_house.py lists those that packages
  share, and checks that no page, example or benchmark uses them.
- Vague locals: of the functions that bind a variable, the share with one that does not say what it holds.
- Docstring and comment lines, for every 100 lines of code.
- Namesakes: the share of modules with a test file of their name.
- Walks (``--walks``): for five common tasks, how many functions run, in how many files, and how often the reader
  changes file when reading them in the order of their first call.
"""

from __future__ import annotations

import argparse
import ast
import collections
import importlib
import io
import itertools
import json
import pkgutil
import re
import sys
import tempfile
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
VAGUE = frozenset({"found", "own", "each", "place", "places", "told", "kept", "one", "some"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(source: Path) -> dict[str, Path]:
    """Return every module of the package, and its file."""
    names = {}
    for path in sorted((source / "hush").rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Yield the modules of the package that a module imports at run time, be it in functions; not those for types."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending += node.orelse
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                target = target if target in known else node.module
                if target in known:
                    yield target
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        pending += ast.iter_child_nodes(node)


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        reached[start] = set()
        pending = [start]
        while pending:
            for target in graph[pending.pop()]:
                if target not in reached[start]:
                    reached[start].add(target)
                    pending.append(target)
    together = {
        frozenset(target for target in reached[start] if start in reached[target])
        for start in graph
        if start in reached[start]
    }
    return sorted(sorted(group) for group in together)


def local_names(function: Function) -> set[str]:
    """Return the names that a function binds, in comprehensions, too."""
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def docstring_lines(tree: ast.Module) -> int:
    """Return how many lines docstrings take."""
    total = 0
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *Function.__args__)) and ast.get_docstring(node):
            text = node.body[0]
            total += text.end_lineno - text.lineno + 1  # type: ignore[operator]
    return total


def comment_and_code_lines(text: str) -> tuple[int, int]:
    """Return how many lines have a comment, and how many have code or a docstring."""
    comments, code = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            code.update(range(token.start[0], token.end[0] + 1))
    return len(comments), len(code)


def public_names() -> dict[str, str]:
    """Return the shortest path and the name of each public object, without those of ``hush.lab``."""
    return {path: name for path, name in exported_names().items() if not path.startswith("hush.lab.")}


def lab_names() -> dict[str, str]:
    """Return the path and the name of each object of ``hush.lab``."""
    return {path: name for path, name in exported_names().items() if path.startswith("hush.lab.")}


def exported_names() -> dict[str, str]:
    """Return each object's shortest path, found through ``__all__`` of packages and public modules."""
    import hush

    paths: dict[Any, str] = {}
    for info in pkgutil.walk_packages(hush.__path__, "hush."):
        if any(part.startswith("_") for part in info.name.split(".")[1:]) or "_cuda" in info.name:
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                continue  # its own names count
            identity = id(value)
            path = f"{info.name}.{name}"
            if identity not in paths or (path.count("."), path) < (paths[identity].count("."), paths[identity]):
                paths[identity] = path
    return {path: path.rpartition(".")[2] for path in sorted(paths.values())}


def count(root: Path) -> dict[str, Any]:
    """Return the numbers that need no running and that tests check."""
    files = modules(root / "src")
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}
    folders = collections.Counter(str(path.parent.relative_to(root / "src")) for path in files.values())
    packages = {str(path.parent.parent.relative_to(root / "src")) for path in files.values() if path.stem == "__init__"}
    classes = collections.Counter(
        node.name.lstrip("_") for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)
    )
    functions = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, Function)]
    bound = [names for names in map(local_names, functions) if names]
    vague = sum(bool(names & VAGUE) for names in bound)
    tests = {path.stem.removeprefix("test_") for path in (root / "tests").rglob("test_*.py")}
    leaves = [name.rpartition(".")[2].lstrip("_") for name, path in files.items() if path.stem != "__init__"]
    return {
        "files": len(files),
        "largest folders": dict(folders.most_common(8)),
        "folders of more than 15 files": sum(size > 15 for size in folders.values()),
        "rooms of fewer than 5 files": sorted(
            folder for folder, size in folders.items() if size < 5 and folder not in packages
        ),
        "files with a leading underscore": sum(
            path.stem.startswith("_") and not path.stem.startswith("__") for path in files.values()
        ),
        "cycles": cycles({name: set(imports(tree, set(files))) - {name} for name, tree in trees.items()}),
        "homonyms": {name: times for name, times in sorted(classes.items()) if times > 1},
        "functions": len(functions),
        "functions with a vague local, %": round(100 * vague / len(bound), 1),
        "modules with a test of their name, %": round(100 * sum(leaf in tests for leaf in leaves) / len(leaves)),
    }


def count_prose(root: Path) -> dict[str, Any]:
    """Return how much of the code is explained."""
    texts = [path.read_text(encoding="utf-8") for path in modules(root / "src").values()]
    docstrings = sum(docstring_lines(ast.parse(text)) for text in texts)
    comments, code = (sum(counts) for counts in zip(*map(comment_and_code_lines, texts), strict=True))
    return {
        "docstring lines per 100 of code": round(100 * docstrings / (code - docstrings)),
        "comment lines per 100 of code": round(100 * comments / (code - docstrings), 1),
    }


def table_rows(counts: dict[str, Any], num_public_names: int) -> dict[str, str]:
    """Return the last column of the table in tools/README.md, by the first; without the walks."""
    return {
        "files; folders of more than 15": f"{counts['files']}; {counts['folders of more than 15 files']}",
        "file names with a leading underscore": str(counts["files with a leading underscore"]),
        "import cycles at run time": str(len(counts["cycles"])),
        "class names defined more than once": str(len(counts["homonyms"])),
        "public names": str(num_public_names),
        "functions with a vague local": f"{counts['functions with a vague local, %']:g} %",
        "docstring lines per 100 of code": str(counts["docstring lines per 100 of code"]),
        "comment lines per 100 of code": str(counts["comment lines per 100 of code"]),
        "modules with a test of their name": f"{counts['modules with a test of their name, %']} %",
    }


def write_table(rows: dict[str, str]) -> None:
    """Write the last column of the table in tools/README.md."""
    path = ROOT / "tools" / "README.md"
    text = path.read_text(encoding="utf-8")
    for name, value in rows.items():
        text = re.sub(rf"^(\| {re.escape(name)} \| [^|]+ \| )[^|]+ \|$", rf"\g<1>{value} |", text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")


def walk(task: Callable[[], object]) -> dict[str, int]:
    """Run a task; count the functions of the package that it calls, their files, and the changes of file."""
    seen: dict[tuple[str, int], None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and "/src/hush/" in code.co_filename and not code.co_name.startswith("<"):
            seen.setdefault((code.co_filename, code.co_firstlineno))

    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
    files = [file for file, _ in seen]
    visited = {files[0]}
    changes = back = 0
    for before, after in itertools.pairwise(files):
        if before != after:
            changes += 1
            back += after in visited
        visited.add(after)
    return {"functions": len(seen), "files": len(visited), "changes of file": changes, "of them back": back}


def walks() -> dict[str, dict[str, int]]:
    """Return the walks through five common tasks. All modules are loaded first, so that no class body counts."""
    exported_names()
    import numpy as np

    import hush
    from hush import accounting, audit, estimators
    from hush.cli import main

    with tempfile.TemporaryDirectory() as folder:
        people = Path(folder, "people.csv")
        rows = [f"{number % 500},{20 + number % 50},{('north', 'south')[number % 2]}" for number in range(2_000)]
        people.write_text("\n".join(["id,age,region", *rows]) + "\n", encoding="utf-8")
        ledger = hush.Ledger(f"sqlite:///{folder}/budget.db")
        budget = ledger.budget("people", epsilon=3.0, delta=1e-6, unit="user")
        table = hush.table(str(people), unit="id", bounds={"age": (0, 100)}, keys={"region": ["north", "south"]})
        query = "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY region"
        x = np.random.default_rng(0).uniform(-1, 1, size=(400, 3))
        scores = x[:, 0]
        model = estimators.PrivateLinearRegression(epsilon=1.0, delta=1e-6, data_norm=2.0, target_bounds=(-1, 1))

        def train() -> None:
            main(["train", "digits", "--epsilon", "3", "--epochs", "1", "--output", f"{folder}/run", "--quiet"])

        tasks: dict[str, Callable[[], object]] = {
            "train": train,
            "sql with a ledger": lambda: table.sql(query, epsilon=1.0, budget=budget),
            "epsilon": lambda: accounting.epsilon(
                noise_multiplier=1.0, sampling_rate=0.01, num_steps=1_000, delta=1e-5
            ),
            "audit": lambda: audit.audit_scores(scores[:200], scores[200:], delta=0.0),
            "estimator fit": lambda: model.fit(x, x[:, 0]),
        }
        return {name: walk(task) for name, task in tasks.items()}


def main_counts() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description="Count how easy the package is to find one's way in.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository to count")
    parser.add_argument("--walks", action="store_true", help="run the five walks, too (a minute)")
    parser.add_argument("--write", action="store_true", help="write the counts into tools/README.md, without the walks")
    options = parser.parse_args()
    counts = count(options.root) | count_prose(options.root)
    if options.root == ROOT:
        counts["public names"] = len(public_names())
        counts["names in hush.lab, outside the promise"] = len(lab_names())
        if options.write:
            write_table(table_rows(counts, counts["public names"]))
    if options.walks:
        counts["walks"] = walks()
    if options.json:
        print(json.dumps(counts, indent=2))
        return
    for name, value in counts.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main_counts()
