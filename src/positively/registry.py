"""Registries of everything that can be extended: losses, methods, heads, table formats and embedders.

Built-in entries are listed with their module, which is imported on first access, so the core knows all names without
importing torch. Entries of ``LOSSES``, ``METHODS``, ``HEADS`` and ``TORCH`` need the extra ``[torch]``; without it,
accessing one raises a :class:`ConfigError` with the pip command.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from zlib import crc32

from positively.errors import ConfigError, explained, option

if TYPE_CHECKING:
    from positively.finetune.methods.base import Method
    from positively.losses.base import LossModule
    from positively.models.heads.base import Head
    from positively.tables.formats import TableFormat

T = TypeVar("T")
_GROUP = "positively.plugins"


def import_room(module: str) -> Any:
    """Import a module of this package that may need an extra; if that is missing, the error has the pip command."""
    try:
        return import_module(f"positively.{module}")
    except ImportError as error:
        raise explained(error) from None


class Registry(Mapping[str, T], Generic[T]):
    """Classes by name, of one kind ("method", "loss", "head", "table format").

    >>> shapes: Registry[type] = Registry("shape")
    >>> @shapes.register("round")
    ... class Round: ...
    >>> shapes["rond"]
    Traceback (most recent call last):
    positively.errors.ConfigError: There is no shape 'rond'; there are round. Did you mean 'round'?
    """

    def __init__(self, kind: str, homes: Mapping[str, str] | None = None) -> None:
        """Make a registry.

        Args:
            kind: Name of the kind, for messages.
            homes: ``module:attribute`` of entries that are imported on first access, by name.
        """
        self.kind = kind
        self._homes = dict(homes or {})
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[Any], Any]:
        """Decorator that registers a class under a name.

        Raises:
            ConfigError: if another class has this name.
        """

        def add(entry: Any) -> Any:
            known = self._homes.get(name, "").replace(":", ".")
            known = _origin(self._entries[name]) if name in self._entries else known
            if known and known != _origin(entry):
                raise ConfigError(f"The {self.kind} '{name}' exists already ({known}). Choose another name.")
            self._entries[name] = entry
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        if name not in self:
            near = difflib.get_close_matches(name, list(self), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" To load your own, pass {option('plugin', 'FILE')}."
            raise ConfigError(f"There is no {self.kind} '{name}'; there are {', '.join(self)}.{hint}")
        if name not in self._entries:
            module, _, attribute = self._homes[name].partition(":")
            self._entries[name] = getattr(import_room(module), attribute)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        if name in self._homes or name in self._entries:
            return True
        load_entry_points()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        load_entry_points()
        return iter(dict.fromkeys([*self._homes, *self._entries]))

    def __len__(self) -> int:
        return len(list(iter(self)))


class MethodRegistry(Registry[T]):
    """Methods by name. A loss without a method of its own is available as a method that minimizes it."""

    def __getitem__(self, name: str) -> T:
        if name in LOSSES and not super().__contains__(name):
            made: T = import_room("finetune.methods.loss_method").method_of_loss(name)
            return made
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in LOSSES

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*super().__iter__(), *LOSSES]))


LOSSES: Registry[type[LossModule]] = Registry(
    "loss",
    {
        "pu-mlc": "losses.variational:PUMLC",
        "vpu": "losses.variational:VPU",
        "upu": "losses.risk:UPU",
        "nnpu": "losses.risk:NNPU",
        "bce": "losses.bce:BCE",
        "assume-negative": "losses.bce:AssumeNegative",
        "partial-bce": "losses.partial_bce:PartialBCE",
        "asl": "losses.focusing:ASL",
        "asl-an": "losses.focusing:ASLAssumeNegative",
        "focal": "losses.focusing:Focal",
        "focal-an": "losses.focusing:FocalAssumeNegative",
        "an-ls": "losses.single_positive:ANLS",
        "em": "losses.single_positive:EM",
        "hill": "losses.robust:Hill",
        "splc": "losses.robust:SPLC",
        "gr": "losses.generalized_robust:GR",
        "two-way": "losses.two_way:TwoWay",
        "epr": "losses.expected_positives:EPR",
    },
)
TABLES: Registry[type[TableFormat]] = Registry(
    "table format",
    {
        "csv": "tables.csv:CSV",
        "tsv": "tables.csv:TSV",
        "parquet": "tables.parquet:Parquet",
        "jsonl": "tables.jsonl:JSONLines",
        "xlsx": "tables.xlsx:XLSX",
        "coco": "tables.coco:COCO",
        "voc": "tables.voc:VOC",
    },
)
METHODS: Registry[type[Method]] = MethodRegistry(
    "method",
    {
        "closed-form": "finetune.methods.closed_form:ClosedForm",
        "distill": "finetune.methods.distill:Distill",
        "pu-mlc": "finetune.methods.pu_mlc:PUMLCMethod",
        "vpu": "finetune.methods.pu_mlc:VPUMethod",
        "upu": "finetune.methods.risk:UPUMethod",
        "nnpu": "finetune.methods.risk:NNPUMethod",
        "splc": "finetune.methods.scheduled:SPLCMethod",
        "gr": "finetune.methods.scheduled:GRMethod",
        "em": "research.rivals.em_apl:EMMethod",
        "em-apl": "research.rivals.em_apl:EMAPL",
        "ll-r": "research.rivals.large_loss:LargeLossRejection",
        "ll-ct": "research.rivals.large_loss:LargeLossTemporary",
        "ll-cp": "research.rivals.large_loss:LargeLossPermanent",
        "prototype": "research.rivals.prototype:PrototypeMethod",
        "sst": "research.rivals.sst:SSTMethod",
        "sarb": "research.rivals.sarb:SARBMethod",
        "ml-gcn": "research.rivals.label_graphs:MLGCNMethod",
        "ssgrl": "research.rivals.label_graphs:SSGRLMethod",
        "cadm": "research.rivals.cadm:CADMMethod",
        "cop": "research.rivals.cop:CoProjectionMethod",
        "dual-coop": "research.rivals.dual_coop:DualCoOp",
        "cl": "research.rivals.curriculum:CurriculumLabelling",
        "imcl": "research.rivals.interactive:InteractiveMethod",
        "epr": "research.rivals.expected_positives:EPRMethod",
        "role": "research.rivals.role:RoleMethod",
    },
)
HEADS: Registry[type[Head]] = Registry(
    "head",
    {
        "linear": "models.heads.linear:LinearHead",
        "kernel": "models.heads.kernel:KernelHead",
        "semantic-graph": "models.heads.semantic_graph:SemanticGraphHead",
        "ml-gcn": "models.heads.ml_gcn:MLGCNHead",
        "cadm": "models.heads.cadm:DisentangledHead",
        "cop": "models.heads.cop:CoProjectionHead",
        "dual-coop": "models.heads.dual_coop:DualCoOpHead",
    },
)

EMBEDDERS: Registry[Any] = Registry("embedder")
"""User-defined embedders: callables without arguments that return an embedder."""

TORCH: Registry[Any] = Registry(
    "part that needs torch",
    {
        "check": "finetune.auto:check_wing_config",
        "train": "finetune.run:train_run",
        "train-together": "finetune.run:train_together",
        "cross-fit": "finetune.crossfit:missing_by_cross_fitting",
        "predictor": "models.predictor:NetworkPredictor",
        "embedder": "models.embedder:NetworkEmbedder",
        "export": "models.exporting:export_backbone",
        "network": "models.exporting:write_run_network",
        "transformers": "models.transformers_export:export_transformers",
    },
)
"""Functions of the torch part of the package that the core calls."""


def _origin(entry: Any) -> str:
    return f"{getattr(entry, '__module__', '')}.{getattr(entry, '__qualname__', entry)}"


@cache
def load_entry_points() -> None:
    """Import the plugins of installed packages (entry point ``positively.plugins``)."""
    for entry_point in entry_points(group=_GROUP):
        entry_point.load()


@cache
def load_plugin(file: str) -> None:
    """Run a Python file that registers classes; only once per file."""
    path = Path(file).expanduser()
    if path.suffix != ".py" or not path.is_file():
        raise ConfigError(f"{option('plugin', file)}: there is no Python file of this name.")
    place = path.resolve()
    name = f"positively_plugin_{path.stem}_{crc32(str(place).encode()):08x}"  # two files may have the same name
    spec = spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and help texts look for it here
    try:
        spec.loader.exec_module(module)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{option('plugin', file)} cannot be loaded: {type(error).__name__}: {error}") from error
