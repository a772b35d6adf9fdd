"""How CARE runs: the workspace's configuration, what is planned, sensors, definitions, the command line."""
