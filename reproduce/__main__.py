"""`python -m reproduce`."""

import sys

from reproduce.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
