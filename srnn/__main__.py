"""Lets `python -m srnn` run the command `srnn`."""

from srnn.lab.cli.app import main

if __name__ == "__main__":
    main()
