"""A table of scores fitted at once, without a workspace: what ``care fit`` does, for whoever has scores at hand.

Belongs here: from scores and a configuration to results (``fitting``), and from results to files (``files``). Belongs
elsewhere: reading users' files (``warehouse.sources``), printing, a workspace.
"""
