"""The options of pytest that every file has, also one that is run alone: tests, examples and the package's doctests."""

pytest_plugins = ["chance", "missing_packages"]  # in tests/, which is on pytest's path
