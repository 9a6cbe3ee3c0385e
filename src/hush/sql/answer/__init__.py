"""From a question to an answer: `declare` a table, price and ask it (`table`, `asked`), and state intervals."""
