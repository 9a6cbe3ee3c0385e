"""Readers of files and folders. Opening data reads names and types only; values are read when they are needed.

In reading order: `open` decides by the kind of path; `csv` reads the header of a CSV file; `table_files` opens CSV,
Parquet and arrays as tables; `arrays` opens IDX, NPZ and CIFAR files; `folder` opens folders of images; `known` finds
datasets by name, and `download` fetches them.
"""
