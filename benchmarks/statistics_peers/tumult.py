"""Tumult Analytics on Spark: half the budget for counts, half for sums; means are their quotients.

It answers one aggregate at a time. Starting Spark is not timed.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)
from worker import Answer, Question, serve


def prepare(question: Question) -> tuple[Any, dict[str, Any]]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers need its packages, too
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(10).count()
    keys = KeySet.from_dict({"g": question.keys})

    def ask() -> Answer:
        frame = spark.read.parquet(question.path).selectExpr(
            "user_id", "CAST(g AS BIGINT) AS g", "CAST(value AS BIGINT) AS value"
        )
        session = Session.from_dataframe(
            PureDPBudget(question.epsilon), "data", frame, protected_change=AddRowsWithID("user_id")
        )
        limited = (
            QueryBuilder("data")
            .enforce(MaxGroupsPerID("g", question.groups_per_unit))
            .enforce(MaxRowsPerGroupPerID("g", question.rows_per_unit))
            .groupby(keys)
        )
        half = PureDPBudget(question.epsilon / 2)
        counted = session.evaluate(limited.count(name="n"), half).collect()
        summed = session.evaluate(limited.sum("value", int(question.low), int(question.high), name="s"), half).collect()
        counts, sums = {row["g"]: row["n"] for row in counted}, {row["g"]: row["s"] for row in summed}
        return {g: (counts[g], sums[g], sums[g] / max(counts[g], 1)) for g in question.keys}

    return ask, {"charged": "half for counts, half for sums; the mean is their quotient"}


if __name__ == "__main__":
    serve(["tmlt.analytics", "pyspark"], prepare)
