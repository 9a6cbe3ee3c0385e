"""The commands, one module each, with ``add_parser`` and ``run``.

- ``train``, ``tune``, ``schema``: private models from files of personal data (`hush.runs`, `hush.data`).
- ``query``: private answers to SQL, one by one or in a shell; ``catalog``: files that declare tables (`hush.sql`).
- ``ledger``: budgets in a database (`hush.ledger`).
- ``plan``, ``account``: noise and epsilon without any data (`hush.accounting`).
- ``audit``: lower bounds on epsilon (`hush.audit`, `hush.runs`).
- ``attack``, with ``attack_data`` and ``attack_models``: a demonstration of membership inference.
"""
