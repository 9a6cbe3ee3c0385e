"""The terms of a budget, fixed when it is created: its cap, its unit, its box, and the size of a standard query."""
