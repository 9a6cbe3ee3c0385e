"""Private choices that precede an answer: limits on contributions, and bounds of undeclared columns.

In reading order:

- `limits`: limits on a unit's rows and groups, given or chosen.
- `bounds`: bounds of columns, learned from the smallest and largest values of units.
- `chooser`: how both are paid for, remembered and reused.
- `stored_choices`: those that a budget has paid for and stores; `stored_form` reads them.
- `left_out`: an estimate of what limits leave out, which intervals allow for.
"""
