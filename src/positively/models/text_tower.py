"""CLIP's frozen text tower: encodes prompts of learned tokens and class names."""

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
    """Encodes prompts [SOS] [learned tokens] [name] [.] [EOS], one per class, with ``transformers``.

    It is not a module, so that its owner neither trains nor saves it, and copies share it. It moves to the device of
    the prompts. Texts are padded to the longest one rather than to 77 tokens: attention is causal, so tokens after
    [EOS] have no effect.

    Args:
        source: Folder or name on the Hugging Face hub of a CLIP model with tokenizer, as saved by transformers or
            OpenCLIP. Pickled weights are never loaded.
        names: Class names; an underscore is read as a space.
        length: Number of learned tokens per prompt.

    Raises:
        ConfigError: If a class name is too long.
        WeightsError: If the model cannot be loaded.
    """

    def __init__(self, source: str, names: Sequence[str], length: int) -> None:
        self.model, tokenizer = _load(source)
        self.length = length
        self.width: int = self.model.config.hidden_size
        self.size: int = self.model.config.projection_dim
        texts = [f"{name.replace('_', ' ')}." for name in names]
        ids: list[list[int]] = [tokenizer(text)["input_ids"] for text in texts]
        # Placeholders for the learned tokens: any ordinary token, here the final stop of the text.
        ids = [[tokens[0], *[tokens[-2]] * length, *tokens[1:]] for tokens in ids]
        longest, room = max(map(len, ids)), int(self.model.config.max_position_embeddings)
        if longest > room:
            name = names[max(range(len(ids)), key=lambda c: len(ids[c]))]
            raise ConfigError(
                f"The prompt of class '{name}' has {longest} tokens; the text tower reads {room}. Shorten the "
                f"name, or use fewer learned tokens than {length}."
            )
        self.ids = torch.tensor([[*tokens, *[tokens[-1]] * (longest - len(tokens))] for tokens in ids])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def encode(self, prompts: Tensor) -> Tensor:
        """Unit text embeddings (S, classes, d) of prompts (S, classes, length, width) or (S, 1, length, width)."""
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
        # Loading draws random weights, which are replaced.
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
            f"{source!r} does not contain a CLIP text tower: {short(reason)}. Pass a folder, or a repository on the "
            f"Hugging Face hub, with the tokenizer's files and either config.json and model.safetensors (transformers) "
            f"or {CONFIG} and {WEIGHTS} (OpenCLIP)."
        ) from reason
    return model.float().requires_grad_(False).eval(), tokenizer


def _is_complete(folder: Path) -> bool:
    """Whether the cache holds a text tower with tokenizer, not only a visual tower."""
    has_words = any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json"))
    return has_words and any((folder / name).is_file() for name in ("model.safetensors", WEIGHTS))


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress bar, and the list of unused weights of the visual tower."""
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
