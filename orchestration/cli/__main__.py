"""Entry point of ``python -m orchestration.cli``."""

from orchestration.cli.app import main

main()
