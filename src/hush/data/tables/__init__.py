"""Declarations about data, and access to the data.

In reading order: `columns` are the kinds of columns; `schema` declares them for training, and `schema_json` is its file
form; `raw_data` is opened data, images among them; `table` reads rows with DuckDB. `catalog` is another declaration,
for `hush.sql`: the tables that a query may name. `catalog_toml` is its file form; `catalog_template` writes such a file
for you to fill in.
"""

from hush.data.tables import catalog as catalog
