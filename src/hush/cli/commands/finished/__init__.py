"""Commands on the folder of a finished run: `hush predict`, `hush report`, `hush export`.

`run_folder` has what they share.
"""
