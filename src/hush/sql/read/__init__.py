"""Translates the text of a query into the typed tree, and refuses everything that is not on the allow-list.

In reading order:

- `parsed_query`: the text as the parser reads it.
- `stages`: subqueries to release first; `public_query`: a last stage that reads public and released tables only.
- `query`: `plan_query`, which reads the outer query.
- `shorthand`: short forms of SQL, such as FILTER and GROUP BY ALL, written out.
- `relations`: FROM, joins, subqueries and UNION ALL, and the unit of each row.
- `grouping`: subqueries that aggregate per unit; expressions over groups.
- `aggregates`: the outer query's aggregates; `grouping_sets`: ROLLUP, CUBE; `released_windows`: windows over groups.
- `translator`: `Translator`, which applies the rules and checks kinds.
- `rules`: the allow-list, with a rule for each node.
- `functions`: the rules for CAST, dates, time zones and text.
"""
