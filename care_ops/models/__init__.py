"""Statistical models of judges and items that the aggregators fit to arrays."""
