"""How CARE runs: the workspace's configuration, conditions, sensors, definitions, the command line."""
