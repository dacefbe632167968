"""``python -m railwright``: the command line."""

from railwright.cli.main import run

run()
