"""`python -m penstock.cli`: the command line, wherever the programs are installed."""

from penstock.cli import main

main()
