"""Minimum numbers of judges, items, scores, labels and resamples that methods need."""

MIN_JUDGES = 3
"""Minimum number of judges for a panel, a factor or a structure; two judges do not show which of them is wrong."""

MIN_COLUMNS = 2
"""Minimum number of columns of an array for means and votes; other methods need ``MIN_JUDGES``."""

JUDGES_OF_FOUR_STATES = 7
"""Minimum number of judges for the paper's Algorithm 2, from Kruskal's condition on three views plus a constant."""

MIN_DISTINCT_JUDGES = 4
"""Minimum number of distinct judges to test for one common factor; three judges always fit one factor."""

FOLLOWS = 0.5
"""Minimum Spearman correlation for a report that a factor follows a text feature."""

MIN_ITEMS = 10
"""Minimum number of items for a correlation or a factor; with fewer, a correlation of .6 may be due to chance."""

MIN_ITEMS_TO_COMPARE = 60
"""Minimum number of items for weights of judges; with fewer, weights are mostly noise."""

MIN_SCORES = 3
"""Minimum number of scores of an item for a reliable estimate."""

MIN_SCORES_TO_DESCRIBE = 20
"""Minimum number of scores of a judge or a column to describe its range, spread, agreement and kind."""

MIN_LABELS = 5
"""Minimum number of labels, from different split units, to report on or to correct a system or a judge."""

LABELS_TO_SETTLE = 10
"""Minimum number of labels that can settle an ambiguous panel; with fewer, the model is overconfident."""

LABELS_TO_CONFIRM = 20
"""Minimum number of labels that confirm an estimate or calibrate a probability."""

MIN_GOLD = 50
"""Minimum number of gold labels of a panel to compare methods in an experiment."""

MIN_RESAMPLES = 20
"""Minimum number of bootstrap resamples; with fewer, the ends of an interval are single draws."""
