"""Where queries run: DuckDB, PostgreSQL, Spark."""
