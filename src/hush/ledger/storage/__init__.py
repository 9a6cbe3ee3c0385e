"""Storage for ledgers: SQLite or PostgreSQL, with one schema."""
