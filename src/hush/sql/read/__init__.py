"""From the text of a query to the typed tree. What is not on the allow-list is refused.

In reading order:

- `query`: `plan_query`, which parses the text and reads the outer query.
- `shorthand`: short forms of SQL, such as FILTER and GROUP BY ALL, written out.
- `sources`: FROM, joins, CTEs and subqueries; names of columns.
- `per_unit`: subqueries that aggregate per unit; expressions over groups.
- `translator`: `Translator`, which applies the rules and checks kinds.
- `rules`: the allow-list, with a rule for each node.
- `conversions`: the rules for CAST and for parts of dates.
"""
