"""How CARE runs: the workspace's configuration, what is planned, sensors, definitions, the command line."""

import warnings

# Dagster warns that parts of it are in beta: this concerns us, who pin its version, and neither hosts nor commands.
warnings.filterwarnings("ignore", ".*currently in (beta|preview).*", module=r"(care_eval\.)?(assets|orchestration)\.")
