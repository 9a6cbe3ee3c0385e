"""Readers: CSV, Parquet, NPZ, IDX, folders of images, known data sets."""
