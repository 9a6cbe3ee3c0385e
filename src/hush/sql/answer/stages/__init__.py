"""How a query is prepared, charged and run. Most queries have one stage; released subqueries are stages of their own.

In reading order:

- `planner`: all that is fixed before data are read: plans, limits, noise and cost.
- `charges`: what a budget is charged for a query, and the answers that it has stored.
- `runner`: runs what is prepared: choices, exact aggregates, noise.
- `staged`: the shares of several stages, and what they cost and say together.
"""
