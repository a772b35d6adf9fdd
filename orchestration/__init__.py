"""Orchestration of CARE: configuration, planning of runs, sensors, Dagster definitions, and the command line."""

import warnings

# Parts of Dagster are in beta, and textstat imports deprecated names. CARE pins both packages: users need no warning.
warnings.filterwarnings("ignore", ".*currently in (beta|preview).*", module=r"(care_eval\.)?(assets|orchestration)\.")
warnings.filterwarnings("ignore", "pkg_resources is deprecated", module=r"textstat\.")
