"""The command line: app.py has the commands; each leaves the work to the module of its name."""
