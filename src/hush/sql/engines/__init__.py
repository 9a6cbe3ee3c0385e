"""Where queries run. An engine executes SQL; it knows nothing about privacy.

In reading order:

- `engine`: the interface, and how an engine's errors are redacted.
- `views`: exact aggregates from an engine, and bounded views that serve further queries.
- `duckdb`, `postgres`, `spark`: the engines.
- `open`: the engine for the data that you pass to `hush.table`.
"""
