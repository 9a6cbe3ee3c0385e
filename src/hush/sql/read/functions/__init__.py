"""Rules for functions of one row. Each is total on every engine: it has a value, or NULL, whatever the row holds.

- `conversions`: CAST, and parts of dates.
- `moments`: intervals and differences of dates.
- `zones`: what the clocks of time zones show.
- `texts`: text, patterns and regular expressions.
"""
