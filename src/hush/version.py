"""The version of hush, defined here only: the build reads it, and ledgers and reports record it."""

__version__ = "0.1.0"
