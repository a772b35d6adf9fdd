"""How fast it is: ours against rivals and against earlier commits."""
