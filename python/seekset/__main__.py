"""``python -m seekset`` is the same as ``seekset``."""

from seekset.cli import main

main()
