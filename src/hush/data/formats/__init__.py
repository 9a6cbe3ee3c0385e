"""Readers of files and folders. Opening data reads only names and types; values are read when they are needed.

In reading order: `openers` chooses a reader by the kind of path; `csv` and `worksheet` read records, which `records`
names and aligns; `parquet` reads Parquet files; `table_files` turns all of these, and arrays, into tables; `arrays`
opens IDX, NPZ and CIFAR files; `folder` opens folders of images; `known_datasets` finds datasets by name, and
`download` fetches them.
"""
