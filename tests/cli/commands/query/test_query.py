"""`hush query`: catalogs, accuracy instead of epsilon, previews, intervals, noise, and mistakes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.terminals import Terminal
from hush.cli import main

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

REGIONS = ["north", "south", "west"]
QUESTION = "SELECT region, COUNT(*) AS n, AVG(income) AS income FROM people GROUP BY region"
DECLARED = ["--unit", "who", "--bounds", "income=0:100000", "--keys", "region=north,south,west"]
ABOUT = [*DECLARED, "--rows-per-unit", "1", "--groups-per-unit", "1"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write 3,000 users of one row, half of them in the north."""
    file = tmp_path / "people.parquet"
    duckdb.sql(
        "COPY (SELECT i AS who, ['north', 'south'][1 + i % 2] AS region, 1000.0 * (i % 100) AS income "
        f"FROM range(3000) t(i)) TO '{file}'"
    )
    return file


def ask(path: Path, *options: str, text: str = QUESTION) -> int:
    return main(["query", str(path), text, *ABOUT, *options])


def as_json(capsys: pytest.CaptureFixture[str], path: Path, *options: str, text: str = QUESTION) -> dict[str, Any]:
    assert ask(path, *options, "--format", "json", text=text) == 0
    return dict(json.loads(capsys.readouterr().out))


def as_csv(capsys: pytest.CaptureFixture[str], path: Path, *options: str, text: str = QUESTION) -> list[dict[str, str]]:
    assert ask(path, *options, "--format", "csv", text=text) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_limits_are_chosen_and_reported(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "SELECT COUNT(*) AS n FROM people"
    assert main(["query", str(path), text, *DECLARED, "--epsilon", "2"]) == 0
    printed = capsys.readouterr()
    # Which limit is chosen is chance: it is not 1 in 7 % of the runs. tests/sql/answer/test_limits.py looks at that.
    assert re.search(r"Limits, chosen privately at epsilon 0\.2: a unit counts with at most \S+ rows?\.", printed.err)
    assert re.search(r"ha(ve|s) more than \S+ rows?;", printed.err)
    assert main(["query", str(path), text, *DECLARED, "--epsilon", "2", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["limits"][0].startswith("Limits, chosen privately")
    assert main(["query", str(path), text, *DECLARED, "--epsilon", "2", "--price"]) == 0
    assert "The noise depends on limits that are chosen first" in capsys.readouterr().out
    assert ask(path, "--epsilon", "2") == 0
    assert "Limits, as you set them: a unit counts with at most 1 row per group" in capsys.readouterr().err


def test_intervals_are_beside_numbers(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(path, "--epsilon", "2") == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].split("  ")[1:][:1] == ["region"]
    assert lines[0].count("95 % interval") == 2
    assert all(line.count(" to ") == 2 for line in lines[1:])
    assert "epsilon <= 2" in printed.err
    answer = as_json(capsys, path, "--epsilon", "2")
    assert [row["region"] for row in answer["rows"]] == REGIONS
    assert answer["confidence"] == 0.95
    for row, ends in zip(answer["rows"], answer["intervals"], strict=True):
        assert set(ends) == {"n", "income"}
        assert all(low <= row[name] <= high for name, (low, high) in ends.items())
    for line in as_csv(capsys, path, "--epsilon", "2"):
        assert float(line["n_low"]) < float(line["n"]) < float(line["n_high"])
        assert float(line["income_low"]) <= float(line["income"]) <= float(line["income_high"])


def test_csv_output_states_the_guarantee_on_standard_error(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(path, "--epsilon", "2", "--format", "csv") == 0
    assert "epsilon <= 2" in capsys.readouterr().err


def test_ends_of_intervals_have_names_of_their_own(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "SELECT region, COUNT(*) AS n, COUNT(*) + 1 AS n_low FROM people GROUP BY region"
    for line in as_csv(capsys, path, "--epsilon", "2", text=text):
        assert list(line) == ["region", "n", "n_low_", "n_high_", "n_low", "n_low_low", "n_low_high"]
        assert float(line["n_low"]) == float(line["n"]) + 1
        assert float(line["n_low_"]) < float(line["n"]) < float(line["n_high_"])


def test_what_has_no_interval_has_no_column_for_one(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "SELECT COUNT(*) > 5 AS s, COUNT(*) + SUM(income) AS t FROM people"
    assert ask(path, "--epsilon", "2", text=text) == 0
    assert "interval" not in capsys.readouterr().out
    assert list(as_csv(capsys, path, "--epsilon", "2", text=text)[0]) == ["s", "t"]


def test_accuracy_instead_of_epsilon(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["--accuracy", "0.05", "--expected", "1000"]
    answer, price = as_json(capsys, path, *wanted), as_json(capsys, path, *wanted, "--price")
    assert answer["guarantee"] == price["guarantee"]
    assert 0 < answer["guarantee"]["epsilon"] < 1
    for row, ends in zip(answer["rows"], answer["intervals"], strict=True):
        assert ends["n"][1] - row["n"] <= 50
    surer = as_json(capsys, path, *wanted, "--price", "--confidence", "0.999")
    assert surer["guarantee"]["epsilon"] > 1.5 * price["guarantee"]["epsilon"]


def test_prices(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(path, "--epsilon", "1", "--price") == 0
    printed = capsys.readouterr().out
    assert "epsilon <= 1" in printed
    assert "centred sum for income" in printed
    price = as_json(capsys, path, "--epsilon", "1", "--price")
    assert price["scales"]["rows for n"] == pytest.approx(3.0)  # COUNT(*), and AVG's own count and sum
    lines = as_csv(capsys, path, "--epsilon", "1", "--price")
    assert [float(line["scale of Laplace noise"]) for line in lines] == list(price["scales"].values())


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_noise(path: Path, capsys: pytest.CaptureFixture[str], noise: str) -> None:
    answer = as_json(capsys, path, "--epsilon", "1", "--delta", "1e-6", "--noise", noise)
    assert answer["guarantee"]["method"].lower().startswith(noise)
    assert answer["guarantee"]["delta"] == (0 if noise == "laplace" else 1e-6)


@pytest.mark.parametrize(
    "more", [[], ["--epsilon", "3"], ["--accuracy", "0.1", "--expected", "300"], ["--delta", "0.1"]]
)
def test_a_preview_has_invented_rows(path: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    answer = as_json(capsys, path, "--preview", *more)
    assert "invented" in answer["preview"]
    assert "guarantee" not in answer
    # Nobody lives in the west, and 1,500 in the north; invented people live anywhere: 333 +- 15 in a region. With
    # Laplace noise of 10 on it, the largest of the four, a region is below 100 in exp(-233 / 10 + 1.1) / 2 = 1e-10.
    assert all(100 < row["n"] < 600 for row in answer["rows"])
    assert ask(path, "--preview", *more) == 0
    printed = capsys.readouterr()
    assert "invented" in printed.err
    assert "interval" in printed.out
    assert list(as_csv(capsys, path, "--preview", *more)[0])[:4] == ["region", "n", "n_low", "n_high"]


def test_a_preview_needs_no_keys(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Invented regions have 200 people or so, and are told with all but e^-50. Limits that are chosen may hide them all.
    text = "SELECT region, COUNT(*) FROM people GROUP BY region"
    limits = ["--rows-per-unit", "1", "--groups-per-unit", "1"]
    assert main(["query", str(path), text, "--unit", "who", *limits, "--preview"]) == 0
    assert "value" in capsys.readouterr().out


def test_an_answer_without_rows_says_why(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 1,500 groups, each of which is told with a probability of about 1e-12.
    text = "SELECT who % 1500 AS pair, COUNT(*) AS n FROM people GROUP BY pair"
    assert ask(path, "--epsilon", "1", "--delta", "1e-12", text=text) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == ["pair", "n"]
    assert "too few units" in printed.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--accuracy and --expected"),
        (["--accuracy", "0.05"], "--expected: expected the approximate number of rows"),
        (["--accuracy", "0.05", "--expected", "10", "--epsilon", "1"], "accuracy"),
        (["--epsilon", "1", "--expected", "10"], "expected"),
        (["--epsilon", "1", "--confidence", "1"], "confidence"),
        (["--epsilon", "1", "--noise", "gaussian"], "delta"),
        (["--epsilon", "1", "--price", "--preview"], "preview"),
        (["--preview", "--expected", "10"], "--accuracy and --expected"),
        (["--accuracy", "nan", "--expected", "10"], "accuracy"),
    ],
)
def test_mistakes_are_refused_in_one_line(
    path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert ask(path, *options) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert words in printed.err


def test_counts_are_whole_in_csv(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in as_csv(capsys, path, "--epsilon", "2"):
        assert all(line[name].lstrip("-").isdigit() for name in ("n", "n_low", "n_high"))


def test_a_price_states_errors(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["--epsilon", "1", "--price", "--expected", "1500"]
    errors = as_json(capsys, path, *question)["errors"]
    assert set(errors) == {"n", "income"}
    answer = as_json(capsys, path, "--epsilon", "1")
    ends = answer["intervals"][0]
    assert errors["n"] == (ends["n"][1] - ends["n"][0]) / 2
    # It goes with one over a count of 1,500 with noise of 3: 5 % off in exp(-25) of the times.
    assert errors["income"] == pytest.approx((ends["income"][1] - ends["income"][0]) / 2, rel=0.05)
    assert ask(path, *question) == 0
    assert "expected error" in capsys.readouterr().out


def test_windows(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    visits = tmp_path / "visits.parquet"
    duckdb.sql(
        "COPY (SELECT i % 100 AS who, DATE '2026-01-01' + i::INTEGER AS day, 'north' AS region, 1.0 AS income "
        f"FROM range(300) t(i)) TO '{visits}'"
    )
    text = "SELECT COUNT(*) AS n FROM visits"
    answer = as_json(capsys, visits, "--epsilon", "9", "--window", "month", "--time", "day", text=text)
    assert answer["guarantee"]["unit"] == "user within one calendar month (UTC)"
    for half in (("--window", "month"), ("--time", "day")):
        assert ask(visits, "--epsilon", "9", *half, text=text) == 2
        assert "expected both --window and --time, or neither" in capsys.readouterr().err


def test_public_tables(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "zones.csv").write_text("region,zone\nnorth,cold\nsouth,warm\n")
    text = "SELECT COUNT(*) AS n FROM people p JOIN zones z ON p.region = z.region WHERE z.zone = 'cold'"
    answer = as_json(capsys, path, "--epsilon", "50", "--public-table", f"zones={tmp_path / 'zones.csv'}", text=text)
    assert answer["rows"][0]["n"] == pytest.approx(1500, abs=5)  # Laplace noise of scale 1/50: false alarms e^-250
    assert ask(path, "--epsilon", "1", "--public-table", "=x", text=text) == 2
    assert "--public-table " in capsys.readouterr().err


def catalog(path: Path) -> str:
    file = path.parent / "clinic.toml"
    text = 'format = "hush.catalog/1"\n[tables.people]\ndata = "people.parquet"\nunit = "who"\n'
    keys = 'keys.region = ["north", "south", "west"]\n'
    file.write_text(f"{text}bounds.income = [0, 100000]\n{keys}rows_per_unit = 1\ngroups_per_unit = 1\n")
    return str(file)


def test_a_catalog_takes_the_place_of_flags(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["--epsilon", "1", "--price", "--format", "json"]
    assert main(["query", "--catalog", catalog(path), QUESTION, *wanted]) == 0
    by_catalog = json.loads(capsys.readouterr().out)
    assert by_catalog == as_json(capsys, path, "--epsilon", "1", "--price")
    assert main(["query", QUESTION, "--catalog", catalog(path), *wanted, "--rows-per-unit", "7"]) == 0
    assert json.loads(capsys.readouterr().out)["scales"]["rows for n"] > 6 * by_catalog["scales"]["rows for n"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--unit", "who"], "unit who: expected none with --catalog. Write it into the catalog."),
        (["--bounds", "income=0:5"], "--bounds income=0:5: expected none with --catalog."),
        (["--public-table", "zones"], "--public-table zones: expected none with --catalog."),
        (["postgresql://ann:geheim@host/db"], "DATA ...: expected none with --catalog."),
    ],
)
def test_declarations_beside_a_catalog_are_refused(
    path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    more = [*words, QUESTION] if words[0].startswith("postgres") else [QUESTION, *words]
    assert main(["query", *more, "--catalog", catalog(path), "--epsilon", "1"]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "geheim" not in printed.err


def test_data_and_unit_are_needed_without_a_catalog(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query"]) == 2
    assert "DATA: expected a file or a database. Or --catalog FILE" in capsys.readouterr().err
    assert main(["query", str(path), QUESTION, "--epsilon", "1"]) == 2
    assert "--unit: expected the column that identifies the privacy unit." in capsys.readouterr().err


def test_counts_are_integers_in_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = as_json(capsys, path, "--epsilon", "2")
    assert all(type(row["n"]) is int and type(row["income"]) is float for row in answer["rows"])
    assert all(type(end) is int for ends in answer["intervals"] for end in ends["n"])


def test_assumptions_are_told(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(path, "--epsilon", "2") == 0
    assert "This assumes that each person has exactly one id." in capsys.readouterr().err
    (path.parent / "p.csv").write_text("who\n" + "\n".join(map(str, range(100))))
    monkeypatch.setattr("sys.stderr", narrow := Terminal(-1))
    assert (
        main(["query", str(path.parent / "p.csv"), "SELECT COUNT(*) AS n FROM p", "--unit", "who", "--epsilon", "1"])
        == 0
    )
    lines = narrow.text.splitlines()
    assert all(len(line) < 80 for line in lines)
    start = next(index for index, line in enumerate(lines) if line.startswith("This assumes"))
    assert len(lines) == start + 2
    assert lines[-1].endswith("... (--format json has all)")


def test_a_replayed_answer_is_told(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sqlalchemy")
    from hush.ledger import Ledger

    monkeypatch.delenv("HUSH_LEDGER_TOKEN", raising=False)
    url = f"sqlite:///{path.parent / 'privacy.db'}"
    Ledger(url).budget("people", epsilon=3, unit="person")
    charging = ["--epsilon", "1", "--budget", "people", "--db", url]
    assert ask(path, *charging) == 0
    assert "ledger already had this answer" not in capsys.readouterr().err
    assert ask(path, *charging) == 0
    assert "The ledger already had this answer, from 2" in capsys.readouterr().err
    answer = as_json(capsys, path, *charging)
    assert answer["replayed"] is True
    assert answer["answered"].endswith("+00:00")


def test_a_ledger_that_is_not_charged_is_told(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSH_LEDGER", "postgresql://ann:geheim@host/db")
    assert ask(path, "--epsilon", "2") == 0
    printed = capsys.readouterr().err
    assert printed.startswith("Nothing is charged to the ledger in $HUSH_LEDGER: --budget NAME charges")
    assert "geheim" not in printed
    for free in ("--price", "--preview"):
        assert ask(path, "--epsilon", "2", free) == 0
        assert "Nothing is charged" not in capsys.readouterr().err


def test_a_fact_and_learned_bounds(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "SELECT SUM(income) AS s FROM people"
    flags = ["--unit", "who", "--most-rows", "1", "--epsilon", "2"]
    assert main(["query", str(path), text, *flags, "--price"]) == 0
    priced = " ".join(capsys.readouterr().out.split())
    assert "Bounds of income will be learned at epsilon 0.133." in priced
    assert "--bounds for columns without any" in priced
    assert main(["query", str(path), text, *flags, "--format", "json"]) == 0
    limits = json.loads(capsys.readouterr().out)["limits"]
    assert limits[0] == "Limits, declared as facts: a unit counts with at most 1 row."
    assert limits[1].startswith("Values of income are clamped to ")


def test_intervals_of_the_noise(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "SELECT COUNT(*) AS n FROM people"
    flags = ["--unit", "who", "--epsilon", "2", "--format", "json"]
    assert main(["query", str(path), text, *flags]) == 0
    answer = json.loads(capsys.readouterr().out)
    ((low, high),) = (ends["n"] for ends in answer["intervals"])
    ((noise_low, noise_high),) = (ends["n"] for ends in answer["noise_intervals"])
    assert low == noise_low < noise_high <= high
    assert isinstance(high, int)
    assert main(["query", str(path), text, *flags, "--noise-intervals"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["intervals"] == answer["noise_intervals"]
