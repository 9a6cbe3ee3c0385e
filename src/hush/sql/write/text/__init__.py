"""The SQL text of relations and expressions, for one dialect.

Trees come from `hush.sql.read`; the text goes to `hush.sql.write.bounded`, which builds the plan's query around it.
None of the user's own text is copied: names of the plan are generated, and constants are quoted again.

- `relations`: what a SELECT reads, with its subqueries.
- `expressions`: expressions, with joins and conditions on subqueries, which contain expressions in turn.
- `functions`: one operation, from the texts of its operands.
- `sums`: values on a grid, and their sums.
- `scans`: tables, with their columns converted to their kinds.
"""
