"""What is said about a fit once it is there: how sure, which system is better, what moved, what a factor looks like.

Belongs here: functions of estimates, weights and labels. Does not: anything that a fit needs.
"""
