"""SmartNoise SQL on SQLite, its way to read data frames.

It limits the rows of a user (here to as many as the groups times the rows in each), not groups. What it charges for
the query is asked of itself, and its epsilon set such that the whole costs what everybody's does: twice its epsilon for
COUNT(value), SUM(value) and AVG(value), which share; three times with COUNT(*).
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import snsql
from worker import Answer, Question, serve

QUERY = "SELECT g, COUNT(value) AS n, SUM(value) AS s, AVG(value) AS m FROM db.data GROUP BY g"


def metadata(question: Question) -> dict[str, Any]:
    """Describe the table; groups are public, so none is censored, and rows are sampled per user."""
    columns = {
        "user_id": {"type": "int", "private_id": True},
        "g": {"type": "int"},
        "value": {"type": "int", "lower": int(question.low), "upper": int(question.high)},
    }
    limits = {
        "max_ids": question.groups_per_unit * question.rows_per_unit,
        "sample_max_ids": True,
        "censor_dims": False,
    }
    return {"": {"db": {"data": {**limits, "row_privacy": False, "clamp_counts": False, **columns}}}}


def prepare(question: Question) -> tuple[Any, dict[str, Any]]:
    tiny = pd.DataFrame({"user_id": [1], "g": [0], "value": [1]})
    about = metadata(question)
    once = snsql.from_df(tiny, privacy=snsql.Privacy(epsilon=1.0, delta=question.delta), metadata=about)
    charged = float(once.get_privacy_cost(QUERY)[0])

    def ask() -> Answer:
        frame = pd.read_parquet(question.path, columns=["user_id", "g", "value"])
        frame["value"] = frame["value"].astype("int64")
        privacy = snsql.Privacy(epsilon=question.epsilon / charged, delta=question.delta)
        rows = snsql.from_df(frame, privacy=privacy, metadata=about).execute(QUERY)
        return {int(g): (n, s, m) for g, n, s, m in rows[1:]}

    return ask, {"charged": f"{charged:g} times its epsilon for the three"}


if __name__ == "__main__":
    serve(["smartnoise-sql", "opendp", "pandas"], prepare)
