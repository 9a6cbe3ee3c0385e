"""Fifteen small tables as people have them: columns, types, ids, dates, gaps and separators, with invented rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

Columns = dict[str, list[Any]]
ROWS = 1500
_WORDS = ("late", "broken", "great", "thanks", "refund", "slow", "friendly", "wrong", "parcel", "again")


def _chosen(rng: np.random.Generator, values: str, rows: int) -> list[str]:
    return [str(value) for value in rng.choice(values.split("|"), rows)]


def _with_gaps(rng: np.random.Generator, values: list[Any], share: float, gap: str = "") -> list[Any]:
    return [gap if missing else value for value, missing in zip(values, rng.random(len(values)) < share, strict=True)]


def _dates(rng: np.random.Generator, rows: int, *, time: bool = False) -> list[str]:
    days = np.datetime64("2013-01-01") + rng.integers(0, 365, rows)
    hours = rng.integers(0, 24, rows)
    return [f"{day} {hour:02d}:00:00" if time else str(day) for day, hour in zip(days, hours, strict=True)]


def _sentences(rng: np.random.Generator, rows: int) -> list[str]:
    return [" ".join(rng.choice(_WORDS, 6)) for _ in range(rows)]


def _csv(path: Path, columns: Columns, separator: str = ",", *, quoted: bool = False) -> None:
    lines = [list(columns), *zip(*columns.values(), strict=True)]
    mark = '"' if quoted else ""
    text = "\n".join(separator.join(f"{mark}{cell}{mark}" for cell in line) for line in lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")


def _parquet(path: Path, columns: Columns, types: str) -> None:
    connection = duckdb.connect()
    connection.register("given", {name: np.array(values) for name, values in columns.items()})
    connection.execute(f"COPY (SELECT {types} FROM given) TO '{path}' (FORMAT parquet)")
    connection.close()


def flights(path: Path, rng: np.random.Generator) -> None:
    """Delays of flights, with a date and text with gaps: a numeric target."""
    hours, delays = rng.integers(5, 24, ROWS), rng.exponential(20, ROWS)
    columns: Columns = {
        "month": rng.integers(1, 13, ROWS).tolist(),
        "carrier": _chosen(rng, "UA|AA|B6|DL|EV", ROWS),
        "tailnum": [f"N{number}" for number in rng.integers(100, 400, ROWS)],
        "origin": _chosen(rng, "EWR|JFK|LGA", ROWS),
        "distance": rng.integers(80, 5000, ROWS).tolist(),
        "time_hour": _dates(rng, ROWS, time=True),
        "arr_delay": _with_gaps(rng, (3 * hours + delays - 50).round().astype(int).tolist(), 0.03, "NA"),
    }
    _csv(path, {**columns, "hour": hours.tolist()})


def penguins(path: Path, rng: np.random.Generator) -> None:
    """Three species: few rows, text and gaps."""
    kinds = rng.integers(0, 3, 344)
    columns: Columns = {
        "species": [("Adelie", "Chinstrap", "Gentoo")[kind] for kind in kinds],
        "island": _chosen(rng, "Biscoe|Dream|Torgersen", 344),
        "bill_length_mm": _with_gaps(rng, (38 + 5 * kinds + rng.normal(0, 2, 344)).round(1).tolist(), 0.01, "NA"),
        "body_mass_g": (3700 + 600 * kinds + rng.normal(0, 300, 344)).round().astype(int).tolist(),
        "sex": _with_gaps(rng, _chosen(rng, "male|female", 344), 0.03, "NA"),
    }
    _csv(path, columns)


def adult(path: Path, rng: np.random.Generator) -> None:
    """Incomes by text and numbers."""
    years = rng.integers(1, 17, ROWS)
    rich = years + rng.normal(0, 4, ROWS) > 11
    columns: Columns = {
        "age": rng.integers(17, 90, ROWS).tolist(),
        "workclass": _chosen(rng, "Private|State-gov|Self-emp|?", ROWS),
        "education-num": years.tolist(),
        "marital-status": _chosen(rng, "Married|Divorced|Never-married", ROWS),
        "sex": _chosen(rng, "Male|Female", ROWS),
        "capital-gain": (rng.random(ROWS) < 0.1).astype(int).tolist(),
        "income": [">50K" if high else "<=50K" for high in rich],
    }
    _csv(path, columns)


def patients(path: Path, rng: np.random.Generator) -> None:
    """Several visits of each patient: a unit, a date, codes, and a target of 0 and 1."""
    pressure = rng.normal(130, 15, ROWS)
    columns: Columns = {
        "patient_id": [f"p{number}" for number in rng.integers(0, 700, ROWS)],
        "admission_date": _dates(rng, ROWS),
        "systolic": pressure.round().astype(int).tolist(),
        "ward": _chosen(rng, "A1|A2|B1|ICU", ROWS),
        "readmitted": (pressure > 132).astype(int).tolist(),
    }
    _csv(path, columns)


def wine(path: Path, rng: np.random.Generator) -> None:
    """Numbers with semicolons and quotes, and a grade as the target."""
    alcohol = rng.normal(10.5, 1, ROWS)
    columns: Columns = {
        "fixed acidity": rng.normal(8, 1.5, ROWS).round(1).tolist(),
        "pH": rng.normal(3.3, 0.15, ROWS).round(2).tolist(),
        "alcohol": alcohol.round(1).tolist(),
        "quality": np.clip((alcohol - 5).round(), 3, 8).astype(int).tolist(),
    }
    _csv(path, columns, ";", quoted=True)


def reviews(path: Path, rng: np.random.Generator) -> None:
    """Free text."""
    texts = _sentences(rng, ROWS)
    columns: Columns = {
        "review_id": list(range(ROWS)),
        "review_text": texts,
        "helpful": rng.integers(0, 9, ROWS).tolist(),
        "sentiment": ["positive" if "great" in text else "negative" for text in texts],
    }
    _csv(path, columns)


def sales(path: Path, rng: np.random.Generator) -> None:
    """A compressed export with the data frame's index as a column without a name."""
    units = rng.integers(1, 40, ROWS)
    columns: Columns = {
        "": list(range(ROWS)),
        "order_date": _dates(rng, ROWS),
        "store": _chosen(rng, "north|south|east", ROWS),
        "units": units.tolist(),
        "revenue": (units * 9.99 + rng.normal(0, 5, ROWS)).round(2).tolist(),
    }
    _csv(path, columns)


def sensors(path: Path, rng: np.random.Generator) -> None:
    """Parquet with a timestamp, a boolean, a list and a float as the target."""
    heat = rng.normal(20, 5, ROWS)
    columns: Columns = {
        "moment": _dates(rng, ROWS, time=True),
        "heat": heat.tolist(),
        "is_open": (rng.random(ROWS) < 0.5).tolist(),
        "load": (2 * heat + rng.normal(0, 3, ROWS)).tolist(),
    }
    _parquet(path, columns, "CAST(moment AS TIMESTAMP) AS moment, heat, is_open, load, [1, 2] AS parts")


def customers(path: Path, rng: np.random.Generator) -> None:
    """Parquet with text, a UUID, a decimal, and a boolean as the target."""
    spent = rng.exponential(100, ROWS)
    columns: Columns = {
        "uid": [f"00000000-0000-0000-0000-{number:012d}" for number in range(ROWS)],
        "country": _chosen(rng, "de|fr|it|es", ROWS),
        "spent": spent.tolist(),
        "churned": (spent < 60).tolist(),
    }
    types = "CAST(uid AS UUID) AS customer, country, CAST(spent AS DECIMAL(12, 2)) AS spent, churned"
    _parquet(path, columns, types)


def letters(path: Path, rng: np.random.Generator) -> None:
    """Twenty-six classes."""
    kinds = rng.integers(0, 26, 4 * ROWS)
    columns: Columns = {"letter": [chr(65 + kind) for kind in kinds]}
    for number in range(4):
        columns[f"x{number}"] = (kinds * (number + 1) % 26 + rng.normal(0, 1, len(kinds))).round(2).tolist()
    _csv(path, columns)


def tickets(path: Path, rng: np.random.Generator) -> None:
    """Several labels at once, each a column."""
    texts = _sentences(rng, ROWS)
    columns: Columns = {
        "message": texts,
        "is_delivery": [int("parcel" in text) for text in texts],
        "is_money": [int("refund" in text) for text in texts],
        "is_praise": [int("thanks" in text) for text in texts],
    }
    _csv(path, columns)


def titanic(path: Path, rng: np.random.Generator) -> None:
    """Ids, names and mostly missing text."""
    female = rng.random(891) < 0.35
    columns: Columns = {
        "PassengerId": list(range(1, 892)),
        "Survived": (female ^ (rng.random(891) < 0.2)).astype(int).tolist(),
        "Pclass": rng.integers(1, 4, 891).tolist(),
        "Name": [f"Passenger {number}" for number in range(891)],
        "Sex": ["female" if woman else "male" for woman in female],
        "Age": _with_gaps(rng, rng.integers(1, 80, 891).tolist(), 0.2),
        "Cabin": _with_gaps(rng, [f"C{number}" for number in rng.integers(1, 99, 891)], 0.77),
    }
    _csv(path, columns)


def houses(path: Path, rng: np.random.Generator) -> None:
    """Prices, tab-separated."""
    area = rng.uniform(40, 240, ROWS)
    columns: Columns = {
        "area": area.round(1).tolist(),
        "zip": rng.integers(10000, 10020, ROWS).tolist(),
        "kind": _chosen(rng, "flat|house", ROWS),
        "price": (area * 3000 + rng.normal(0, 3e4, ROWS)).round().tolist(),
    }
    _csv(path, columns, "\t")


def survey(path: Path, rng: np.random.Generator) -> None:
    """Eighty answers: too few to learn classes from."""
    answers = rng.integers(1, 6, 80)
    columns: Columns = {
        "q1": answers.tolist(),
        "q2": rng.integers(1, 6, 80).tolist(),
        "satisfied": ["yes" if answer > 3 else "no" for answer in answers],
    }
    _csv(path, columns)


def german(path: Path, rng: np.random.Generator) -> None:
    """Semicolons, decimal commas and German dates."""
    income = rng.normal(3000, 700, ROWS)
    columns: Columns = {
        "Alter": rng.integers(18, 80, ROWS).tolist(),
        "Einkommen": [f"{value:.2f}".replace(".", ",") for value in income],
        "Datum": ["{2}.{1}.{0}".format(*day.split("-")) for day in _dates(rng, ROWS)],
        "Kredit": ["ja" if value > 2900 else "nein" for value in income],
    }
    _csv(path, columns, ";")


# The file, its writer and the target.
TABLES: dict[str, tuple[str, Callable[[Path, np.random.Generator], None], str]] = {
    "flights": ("flights.csv", flights, "arr_delay"),
    "penguins": ("penguins.csv", penguins, "species"),
    "adult": ("adult.csv", adult, "income"),
    "patients": ("patients.csv", patients, "readmitted"),
    "wine": ("wine.csv", wine, "quality"),
    "reviews": ("reviews.csv", reviews, "sentiment"),
    "sales": ("sales.csv.gz", sales, "revenue"),
    "sensors": ("sensors.parquet", sensors, "load"),
    "customers": ("customers.parquet", customers, "churned"),
    "letters": ("letters.csv", letters, "letter"),
    "tickets": ("tickets.csv", tickets, "is_delivery,is_money,is_praise"),
    "titanic": ("titanic.csv", titanic, "Survived"),
    "houses": ("houses.tsv", houses, "price"),
    "survey": ("survey.csv", survey, "satisfied"),
    "german": ("german.csv", german, "Kredit"),
}


def write_table(name: str, folder: Path) -> tuple[Path, str]:
    """Write one of the tables; return its file and its target."""
    file_name, write, target = TABLES[name]
    write(folder / file_name, np.random.default_rng(len(name) + ord(name[0])))
    return folder / file_name, target
