"""`python -m srnn` is `srnn`."""

from srnn.cli import main

if __name__ == "__main__":
    main()
