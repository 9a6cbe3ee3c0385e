"""The accountants: from events to epsilon and delta.

In reading order: `accountant` is the interface that they share. `pld` composes privacy loss distributions (the
default). `rdp` adds Renyi divergences, `zcdp` and `gdp` add one parameter each, and `classic_theorems` holds the
textbook theorems on (epsilon, delta). All but `classic_theorems` start from the dominating pairs of
``hush.accounting.losses``.
"""
