"""From the tree to SQL: `plan` holds the bounded query, `bounded` and `emit` write it in each of `dialects`."""
