"""Translates the typed tree into SQL for an engine.

In reading order:

- `plan`: `QueryPlan`, which holds the query and reads the engine's result.
- `bounded`: the chain of common table expressions that bounds each unit's contribution.
- `public_plan`: a last stage that reads public tables and released values only.
- `table_parts`: rows of one month or one region, for ledgers that budget them apart.
- `extremes`: units by their least and greatest values, to learn the bounds of a column.
- `text`: the SQL text of relations and expressions, in a folder of its own.
- `dialects`: how DuckDB, Spark and PostgreSQL write each operation; `warehouses`: how others do; `patterns`: texts that
  are numbers or dates.
- `trees`: quantiles from the leaf counts that an engine returns.
"""
