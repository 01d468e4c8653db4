"""CLIP's text tower, frozen: learned tokens before the names of the classes → text features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.functional import normalize

from positively.errors import ConfigError, WeightsError, short
from positively.models.open_clip import CONFIG, WEIGHTS, text_config, text_weights
from positively.models.weights import fetch_folder


class TextTower:
    """Reads prompts [SOS] [learned tokens] [name] [.] [EOS], one a class, by ``transformers``.

    It is no module, so that what holds it neither trains nor saves it, and copies share it. It follows the prompts to
    their device. Texts are as long as the longest needs, not CLIP's 77 tokens: attention looks back only, so that
    nothing behind [EOS] counts.

    Args:
        source: Folder, or name on the Hugging Face hub, of a CLIP with its tokenizer, as transformers or OpenCLIP save
            it. Pickled weights are never read.
        names: Names of the classes; an underscore is a space.
        length: Learned tokens of a prompt.
    """

    def __init__(self, source: str, names: Sequence[str], length: int) -> None:
        self.model, tokenizer = _load(source)
        self.length = length
        self.width: int = self.model.config.hidden_size
        self.size: int = self.model.config.projection_dim
        texts = [f"{name.replace('_', ' ')}." for name in names]
        ids: list[list[int]] = [tokenizer(text)["input_ids"] for text in texts]
        # Any token but a special one stands where the learned ones go; the stop of each text is there for sure.
        ids = [[tokens[0], *[tokens[-2]] * length, *tokens[1:]] for tokens in ids]
        longest, room = max(map(len, ids)), int(self.model.config.max_position_embeddings)
        if longest > room:
            name = names[max(range(len(ids)), key=lambda c: len(ids[c]))]
            raise ConfigError(
                f"The prompt of class '{name}' has {longest} tokens, and the text tower reads {room}. Shorten the "
                f"name, or take fewer learned tokens than {length}."
            )
        self.ids = torch.tensor([[*tokens, *[tokens[-1]] * (longest - len(tokens))] for tokens in ids])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def encode(self, prompts: Tensor) -> Tensor:
        """Text features S×classes×d of length 1; prompts are S×classes×length×width, or S×1×… shared by all classes."""
        sets, classes = len(prompts), len(self.ids)
        learned = prompts.expand(sets, classes, -1, -1).flatten(0, 1)
        model = self.model.to(device=prompts.device, dtype=prompts.dtype)

        def insert(module: nn.Module, given: Any, embedded: Tensor) -> Tensor:
            return torch.cat([embedded[:, :1], learned.to(embedded.dtype), embedded[:, 1 + self.length :]], 1)

        hook = model.get_input_embeddings().register_forward_hook(insert)
        try:
            features: Tensor = model(input_ids=self.ids.to(prompts.device).repeat(sets, 1)).text_embeds
        finally:
            hook.remove()
        return normalize(features, dim=-1).reshape(sets, classes, -1)


def _load(source: str) -> tuple[Any, Any]:
    try:
        from transformers import CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizer
    except ImportError as error:
        raise WeightsError(f"CLIP's text tower needs {error.name}. Run: pip install 'positively[clip]'") from None
    try:
        # Whatever it draws for weights that are replaced.
        with _quiet(), torch.random.fork_rng(devices=[]):
            folder = Path(source).expanduser()
            if not folder.is_dir():
                folder = fetch_folder(source, ("*.json", "*.txt", "model.safetensors", WEIGHTS), _is_complete)
            tokenizer: Any = CLIPTokenizer.from_pretrained(folder)
            model: Any
            if (folder / CONFIG).is_file():
                ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
                model = CLIPTextModelWithProjection(CLIPTextConfig(**text_config(folder / CONFIG), **ends))
                model.load_state_dict(text_weights(folder / WEIGHTS))
            else:
                model = CLIPTextModelWithProjection.from_pretrained(folder, use_safetensors=True)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as reason:
        raise WeightsError(
            f"No text tower of CLIP can be read from {source!r}: {short(reason)}. Name a folder, or a repository on "
            f"the Hugging Face hub, that holds the tokenizer's files and either config.json and model.safetensors (of "
            f"transformers) or {CONFIG} and {WEIGHTS}."
        ) from reason
    return model.float().requires_grad_(False).eval(), tokenizer


def _is_complete(folder: Path) -> bool:
    """Whether what lies in the cache is more than a visual tower."""
    has_words = any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json"))
    return has_words and any((folder / name).is_file() for name in ("model.safetensors", WEIGHTS))


@contextmanager
def _quiet() -> Iterator[None]:
    """Neither a progress bar nor a list of the visual tower's weights, which the file of a whole CLIP holds too."""
    from transformers import utils

    logging: Any = utils.logging
    verbosity, shows_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shows_bars:
            logging.enable_progress_bar()
