"""What it lives through: kills, damage, full disks, other processes, spoilt input and small mistakes in its code."""
