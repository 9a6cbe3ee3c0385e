"""OpenDP with Polars. Values are cast to integers: sums of floats would have up to 19 times the noise.

Counts and sums, of one Laplace budget that it splits; means are their quotients. Its Gaussian noise is calibrated by
zCDP, which at this epsilon and delta gives larger errors.
"""

from __future__ import annotations

from typing import Any

import opendp.prelude as dp
import polars as pl
from worker import Answer, Question, serve

MOST_ROWS = 10_000_000  # of a group, which it wants to know lest sums overflow


def prepare(question: Question) -> tuple[Any, dict[str, Any]]:
    dp.enable_features("contrib")
    keys = pl.LazyFrame({"g": question.keys}, schema={"g": pl.Int64})

    def ask() -> Answer:
        columns = pl.col("user_id"), pl.col("g").cast(pl.Int64), pl.col("value").cast(pl.Int64)
        context = dp.Context.compositor(
            data=pl.scan_parquet(question.path).select(*columns),
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
            privacy_loss=dp.loss_of(epsilon=question.epsilon),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=["g"], max_length=MOST_ROWS, invariant="keys")],
        )
        bounds = int(question.low), int(question.high)
        found = (
            context.query()
            .truncate_per_group(question.rows_per_unit, by=["g"])
            .truncate_num_groups(question.groups_per_unit, by=["g"], keep="first")
            .group_by("g")
            .agg(dp.len(), pl.col("value").fill_null(0).dp.sum(bounds))
            .with_keys(keys)
            .release()
            .collect()
        )
        return {g: (n, s, s / max(n, 1)) for g, n, s in found.select("g", "len", "value").iter_rows()}

    return ask, {"charged": "one budget for count and sum; the mean is their quotient"}


if __name__ == "__main__":
    serve(["opendp", "polars"], prepare)
