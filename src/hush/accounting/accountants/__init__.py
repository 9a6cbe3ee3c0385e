"""Accountants, one contract: `accountant`; `pld`, `rdp`, `zcdp`, `gdp` and `classic` fulfil it."""
