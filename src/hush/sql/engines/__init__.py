"""Engines run queries. An engine executes SQL and knows nothing about privacy.

In reading order:

- `engine`: the interface, and how an engine's errors are redacted.
- `views`: exact aggregates from an engine, and bounded views that serve further queries.
- `frames`: data frames and Arrow tables without texts that are not UTF-8.
- `duckdb`, `postgres`, `spark`: the engines that keep bounded views.
- `connections`: any other database, through SQLAlchemy or ADBC. `sessions`: how these differ.
- `openers`: the engine for the data that you pass to `hush.table`.
"""
