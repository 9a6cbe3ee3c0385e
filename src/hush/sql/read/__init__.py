"""From the text of a query to the typed tree. What is not on the allow-list is refused.

In reading order:

- `query`: `plan_query`, which parses the text and reads the outer query.
- `shorthand`: short forms of SQL, such as FILTER and GROUP BY ALL, written out.
- `sources`: FROM, CTEs and subqueries; `scope`: names of columns.
- `tables`: declared tables, and whose rows are in a table that refers to others.
- `joins`: which rows are combined, and whether these belong to one unit.
- `per_unit`: subqueries that aggregate per unit; expressions over groups.
- `windows`, `union`: window functions within a unit; UNION ALL.
- `nested`: subqueries in conditions.
- `translator`: `Translator`, which applies the rules and checks kinds.
- `rules`: the allow-list, with a rule for each node.
- `conversions`: the rules for CAST and for parts of dates.
"""
