"""`python -m srnn` is the same as `srnn`."""

from srnn.lab.cli import main

if __name__ == "__main__":
    main()
