"""Long tests of robustness: kills, damage, full disks, hostile input, and mutants of the code."""
