"""Registry of all aggregators by name."""

from care_ops.aggregators.annotators import DAWID_SKENE, GLAD, LABEL_MODEL, MACE
from care_ops.aggregators.base import Aggregator
from care_ops.aggregators.care import care
from care_ops.aggregators.care_svd import care_svd
from care_ops.aggregators.care_tensor import care_tensor
from care_ops.aggregators.care_tensor_paper import care_tensor_paper
from care_ops.aggregators.latent import common_factor, mean_of_families
from care_ops.aggregators.votes import average, best_judge, majority_vote, median
from care_ops.aggregators.weak_supervision import universal_weak_supervision

REGISTRY: dict[str, Aggregator] = {
    aggregator.name: aggregator
    for aggregator in (
        Aggregator("care", care, uses_labels=True),
        Aggregator("mv", majority_vote),
        Aggregator("avg", average),
        Aggregator("uws", universal_weak_supervision),
        Aggregator("care_svd", care_svd, uses_labels=True),
        Aggregator("care_tensor", care_tensor, uses_labels=True),
        Aggregator("median", median),
        Aggregator("families", mean_of_families),
        Aggregator("factor_analysis", common_factor),
        Aggregator("dawid_skene", DAWID_SKENE),
        Aggregator("glad", GLAD),
        Aggregator("mace", MACE),
        Aggregator("ws", LABEL_MODEL),
        Aggregator("best_judge", best_judge, uses_labels=True),
        Aggregator("care_tensor_paper", care_tensor_paper, uses_labels=True),
    )
}
