"""PipelineDP on its local backend: one budget for the three, since its mean contains the count and the sum."""

from __future__ import annotations

from typing import Any

import pipeline_dp
import pyarrow.parquet
from worker import Answer, Question, serve


def prepare(question: Question) -> tuple[Any, dict[str, Any]]:
    gaussian = question.variant == "gaussian"
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM, pipeline_dp.Metrics.MEAN],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN if gaussian else pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=question.groups_per_unit,
        max_contributions_per_partition=question.rows_per_unit,
        min_value=question.low,
        max_value=question.high,
    )
    places = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )

    def ask() -> Answer:
        table = pyarrow.parquet.read_table(question.path, columns=["user_id", "g", "value"])
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        delta = question.delta if gaussian else 0.0
        budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=question.epsilon, total_delta=delta)
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
        aggregated = engine.aggregate(rows, parameters, places, public_partitions=question.keys)
        budget.compute_budgets()
        return {key: (one.count, one.sum, one.mean) for key, one in aggregated}

    return ask, {"charged": "one budget: count and sum come with the mean"}


if __name__ == "__main__":
    serve(["pipeline-dp", "python-dp"], prepare)
