"""From your query to its private answer.

In reading order:

- `declaration`: `table` and `JoinedTable`, which declare tables and what is public about them; `catalog_file`: the same
  from a file.
- `table`: `Table`, with `Table.sql`, `Table.price` and `Table.preview`.
- `choices`: limits and bounds that are chosen privately if you give none, and their cost.
- `conditions`: the statements of an answer about its limits, bounds and intervals.
- `priced_query`: the noise of a query, fixed before data are read, and the release of its groups.
- `intervals`, `spread`: confidence intervals; `spread` has those of variances.
- `accuracy`: the epsilon for a wanted accuracy, and expected errors.
- `answer`: `QueryAnswer`, and its form in a ledger.
- `preview`: `Preview`, from invented rows.
- `table_parts`: rows of one month or one region, for ledgers that budget them separately.
"""
