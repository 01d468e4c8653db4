"""Fine-tuning: methods, the training loop, and what benchmarks need of them."""

from typing import TYPE_CHECKING

from positively.lazy import lazy

if TYPE_CHECKING:
    from positively.finetune.auto import possible_starts, resolve
    from positively.finetune.checkpoints import CheckpointFolder
    from positively.finetune.holdout import split_rows
    from positively.finetune.identity import training_identity
    from positively.finetune.loading import FeatureDataset, ImageDataset
    from positively.finetune.loop import Trainer
    from positively.finetune.methods import (
        METHODS,
        LossMethod,
        Method,
        StepContext,
        TrainingContext,
        create_method,
        register_method,
    )
    from positively.finetune.methods.risk import label_frequency
    from positively.finetune.networks import Networks
    from positively.finetune.runtime import launch, preserved_random_state
    from positively.finetune.scoring import Logits
    from positively.finetune.training import Training

__all__ = [
    "METHODS",
    "CheckpointFolder",
    "FeatureDataset",
    "ImageDataset",
    "Logits",
    "LossMethod",
    "Method",
    "Networks",
    "StepContext",
    "Trainer",
    "Training",
    "TrainingContext",
    "create_method",
    "label_frequency",
    "launch",
    "possible_starts",
    "preserved_random_state",
    "register_method",
    "resolve",
    "split_rows",
    "training_identity",
]

__getattr__ = lazy(
    __name__,
    {
        "auto": ["possible_starts", "resolve"],
        "checkpoints": ["CheckpointFolder"],
        "holdout": ["split_rows"],
        "identity": ["training_identity"],
        "loading": ["FeatureDataset", "ImageDataset"],
        "loop": ["Trainer"],
        "methods": [
            "LossMethod",
            "METHODS",
            "Method",
            "StepContext",
            "TrainingContext",
            "create_method",
            "register_method",
        ],
        "methods.risk": ["label_frequency"],
        "networks": ["Networks"],
        "runtime": ["launch", "preserved_random_state"],
        "scoring": ["Logits"],
        "training": ["Training"],
    },
)
