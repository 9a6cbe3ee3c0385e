"""The typed tree of a query: expressions, relations, releases, outputs; and how a query is refused."""
