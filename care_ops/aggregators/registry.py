"""Every aggregator under the name that people type."""

from care_ops.aggregators.annotators import DAWID_SKENE, GLAD, LABEL_MODEL, MACE
from care_ops.aggregators.base import Aggregator
from care_ops.aggregators.care import Care
from care_ops.aggregators.care_svd import CareSVD
from care_ops.aggregators.care_tensor import CareTensor
from care_ops.aggregators.care_tensor_paper import CareTensorPaper
from care_ops.aggregators.latent import FactorAnalysis, Families
from care_ops.aggregators.votes import Average, BestJudge, MajorityVote, Median
from care_ops.aggregators.weak_supervision import UniversalWeakSupervision

REGISTRY: dict[str, Aggregator] = {
    aggregator.name: aggregator
    for aggregator in (
        Care(),
        MajorityVote(),
        Average(),
        UniversalWeakSupervision(),
        CareSVD(),
        CareTensor(),
        Median(),
        Families(),
        FactorAnalysis(),
        DAWID_SKENE,
        GLAD,
        MACE,
        LABEL_MODEL,
        BestJudge(),
        CareTensorPaper(),
    )
}
