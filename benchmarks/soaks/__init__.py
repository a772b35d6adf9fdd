"""Long tests of robustness: kills, damage, full disks and hostile input."""
