"""Fewest judges, items, scores, labels and resamples from which a number is worth saying, in one table.

Every module that asks "is this enough?" takes its answer from here. Two questions share a row where too little of the
one misleads as too little of the other does.
"""

MIN_JUDGES = 3
"""On a panel, and of a factor or a structure. Where two disagree, nothing says which of them is wrong."""

MIN_COLUMNS = 2
"""Of an array that anybody may aggregate: means and votes answer, all else says that it needs ``MIN_JUDGES``."""

JUDGES_OF_FOUR_STATES = 7
"""Of the paper's Algorithm 2: Kruskal's condition on three views of two judges and more, with a constant in each."""

MIN_DISTINCT_JUDGES = 4
"""Of which more can be seen than which of them agree: of three, one factor explains every correlation."""

FOLLOWS = 0.5
"""Rank correlation (Spearman) with a feature of the texts from which on a factor is said to follow it."""

MIN_ITEMS = 10
"""Of a correlation, a factor or a fall: by fewer, one of .6 is within chance."""

MIN_ITEMS_TO_COMPARE = 60
"""By which judges can be told apart; by fewer the weights are mostly noise."""

MIN_SCORES = 3
"""Of an item on which an estimate can rest. Where two differ, nothing says which of them is wrong."""

MIN_SCORES_TO_DESCRIBE = 20
"""Of a judge or a column, from which its range, its spread, its agreement and its kind are read."""

MIN_LABELS = 5
"""Of a system or a judge, from different split units, before anything is said of it or corrected by it."""

LABELS_TO_SETTLE = 10
"""That settle what quality is on a panel; by fewer the model behind the probability is too sure of itself."""

LABELS_TO_CONFIRM = 20
"""That confirm an answer, or give a probability: by fewer even a right one often does not beat the commoner label."""

LABELS_TO_ADVISE = 30
"""From which on a normal approximation holds: for a slope, for advice on a judge. A shift needs fewer."""

MIN_GOLD = 50
"""Labels of a panel on which an experiment measures methods against each other."""

MIN_RESAMPLES = 20
"""Of a bootstrap. The ends of an interval of fewer are single draws."""
