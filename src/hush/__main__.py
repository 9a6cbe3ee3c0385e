"""``python -m hush``: the command line."""

import sys

from hush.cli import main

if __name__ == "__main__":
    sys.exit(main())
