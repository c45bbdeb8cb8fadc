"""`python -m textassay`: the command line."""

from textassay.cli import main

if __name__ == "__main__":
    main()
