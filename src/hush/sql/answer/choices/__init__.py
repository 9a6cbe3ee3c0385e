"""What is chosen privately before an answer: limits on contributions, and bounds of columns that nobody declared.

In reading order:

- `limits`: limits on a unit's rows and groups, given or chosen.
- `bounds`: bounds of columns, learned from what units hold at least and at most.
- `chooser`: how both are paid for, remembered and used again.
- `left_out`: what limits are expected to leave out, which intervals allow for.
"""
