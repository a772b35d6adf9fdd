"""Results that are read off a fit: its uncertainty, comparisons of systems, drift, agreement, and looks of its factors.

Belongs here: functions of estimates, weights and labels. Belongs elsewhere: anything that a fit needs.
"""
