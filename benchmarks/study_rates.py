"""Do intervals of a system's mean label cover what they claim, and how wide are they? ``make bench-rates``.

The design, fixed before any result on these panels was seen:

- Panels: one view of each folder of CARE_DATA_DIR with scores and gold (``VIEWS``), judges admitted by the default rule.
- Answer: ``care`` without a label, so that no label is used twice.
- Labels: gold of a simple random sample of 20, 50 or 100 items of the panel or of each of two systems. ``--draws`` samples
  for each cell, 5,000 by default, the same for every method.
- Targets: the mean of gold over the panel's items; where a panel names systems (``SYSTEMS``), the difference of two, for
  the pair whose gold differs most and for the pair whose gold differs least among those with at least 200 items each.
- Chosen labels: a Poisson sample whose chances are proportional to .25 + the rank difference of the two answers that
  ``care`` weighs against one another (0 to 1), scaled so that 20, 50 or 100 are expected; estimates are told the chances.
- Ours: ``results.rates.rates_of`` with the declared split units. Nothing in it was chosen on these panels: its form and
  its priors were chosen on simulated populations (``tests/care_ops/test_rates.py`` repeats some of them).
- Beside it in the same draws: labels alone (ours), truescore's ``ppi_estimate`` on the majority vote (panels whose labels
  are 0 and 1) or the panel's mean, and on the same answer of ``care``; and ppi-python's ``ppi_mean_ci`` on the latter.
- Printed: coverage of 90 % intervals, mean width, root mean squared error. A cell whose labels alone cannot do better (the
  binomial distribution is too coarse at 20 labels) shows in the column of labels alone.

Belongs here: the panels, the draws, the tables. Does not: the estimator (``care_ops.results.rates``).
"""
