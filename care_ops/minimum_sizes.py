"""Minimum numbers of judges, items, scores, labels and resamples, in one table."""

MIN_JUDGES = 3
"""Judges of a panel, a factor or a structure; with two judges, no score shows which one is wrong."""

MIN_COLUMNS = 2
"""Columns of an array that means and votes aggregate; other methods need ``MIN_JUDGES``."""

JUDGES_OF_FOUR_STATES = 7
"""Judges for the paper's Algorithm 2: Kruskal's condition on three views, with a constant in each."""

MIN_DISTINCT_JUDGES = 4
"""Distinct judges for a test of one common factor, which explains any correlations of three judges."""

FOLLOWS = 0.5
"""Spearman correlation from which a factor is reported to follow a feature of the texts."""

MIN_ITEMS = 10
"""Items for a correlation or a factor; with fewer, a correlation of .6 may be due to chance."""

MIN_ITEMS_TO_COMPARE = 60
"""Items for weights of judges; with fewer, weights are mostly noise."""

MIN_SCORES = 3
"""Scores of an item for a reliable estimate."""

MIN_SCORES_TO_DESCRIBE = 20
"""Scores of a judge or a column for its range, spread, agreement and kind."""

MIN_LABELS = 5
"""Labels of a system or a judge, from different split units, for any report or correction."""

LABELS_TO_SETTLE = 10
"""Labels that can settle an ambiguous panel; with fewer, the model is overconfident."""

LABELS_TO_CONFIRM = 20
"""Labels that confirm an estimate or calibrate a probability."""

MIN_GOLD = 50
"""Labels of a panel for a comparison of methods in an experiment."""

MIN_RESAMPLES = 20
"""Resamples of a bootstrap; with fewer, the ends of an interval are single draws."""
