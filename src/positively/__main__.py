"""``python -m positively``."""

import sys

from positively.cli import main

if __name__ == "__main__":
    sys.exit(main())
