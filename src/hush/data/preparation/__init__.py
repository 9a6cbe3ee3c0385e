"""From a table to examples: learn what is not declared, encode, split."""
