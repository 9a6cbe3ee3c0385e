"""OpenDP with Polars. Values are cast to integers: sums of floats would have up to 19 times the noise.

Counts and sums, of one Laplace budget that it splits; means are their quotients. Its Gaussian noise is calibrated by
zCDP, which at this epsilon and delta gives larger errors.

Told to keep k groups of a user, OpenDP 0.16 keeps k - 1, with noise for k. It keeps the first. To choose at random,
as it does by default, fails on Polars 1.36 (two fields have one name); the variant *at random* does so, at some cost of
time, by a rank in front of the key. It is told no limit on groups where there are no more groups than that.
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
        columns = [pl.col("user_id"), pl.col("g").cast(pl.Int64), pl.col("value").cast(pl.Int64)]
        order = ["g"]
        if question.variant == "at random":
            columns.append(pl.struct("user_id", "g").hash().alias("rank"))
            order = ["rank", "g"]
        context = dp.Context.compositor(
            data=pl.scan_parquet(question.path).select(*columns),
            privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
            privacy_loss=dp.loss_of(epsilon=question.epsilon),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=["g"], max_length=MOST_ROWS, invariant="keys")],
        )
        bounds = int(question.low), int(question.high)
        rows = context.query().truncate_per_group(question.rows_per_unit, by=["g"])
        if question.groups_per_unit < question.groups:
            rows = rows.truncate_num_groups(question.groups_per_unit, by=order, keep="first")
        released = (
            rows.group_by("g")
            .agg(dp.len(), pl.col("value").fill_null(0).dp.sum(bounds))
            .with_keys(keys)
            .release()
            .collect()
        )
        return {g: (n, s, s / max(n, 1)) for g, n, s in released.select("g", "len", "value").iter_rows()}

    return ask, {"charged": "one budget for count and sum; the mean is their quotient"}


if __name__ == "__main__":
    serve(["opendp", "polars"], prepare)
