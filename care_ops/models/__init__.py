"""Statistical models of judges and items, fitted to arrays, that the aggregators use."""
