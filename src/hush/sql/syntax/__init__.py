"""The typed tree of a query. Everything else in `hush.sql` builds it, writes it or computes with it.

In reading order:

- `expression`: values of a row, with their kinds and bounds.
- `relation`: tables, joins and subqueries, and the unit that each row belongs to.
- `grid`: the integers that engines add up in place of numbers.
- `releases`: the sums and counts that get noise, and the aggregates computed from them.
- `output`: evaluation of expressions over released values.
- `reasons`, `refusal`: why and where a query is refused.
"""
