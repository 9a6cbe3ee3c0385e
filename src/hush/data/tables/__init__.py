"""What is declared about data: schemas, the catalog of tables, and the data themselves."""
