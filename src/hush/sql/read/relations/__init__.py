"""FROM and WHERE: tables, joins, subqueries and unions become relations whose rows belong to units.

- `reader` reads FROM, common table expressions and WHERE; `tables` reads a declared table.
- `scope` holds the names that a SELECT sees; `joins` checks that a join equates units; `union` joins the parts of a
  UNION ALL.
- `nested` reads subqueries in WHERE, `windows` the windows over one unit's rows.

Expressions of a row are read one level up, by `hush.sql.read.translator`.
"""
