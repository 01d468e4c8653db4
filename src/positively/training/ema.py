"""Averaged weights: an exponential moving average of everything that learns, and of the buffers."""

import torch
from torch import Tensor, nn


class Ema:
    """Shadow of a network's learning weights.

    The decay rises with the steps, min(decay, (1 + t) / (10 + t)), so that a short run is not an average of its
    beginning. The reference had no such rise.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.shadow = {name: tensor.detach().clone() for name, tensor in self._tracked(network)}

    @staticmethod
    def _tracked(network: nn.Module) -> list[tuple[str, Tensor]]:
        learning = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
        return learning + [(name, b) for name, b in network.named_buffers() if b.is_floating_point()]

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Take one step of the network into the average."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for name, tensor in self._tracked(network):
            self.shadow[name].lerp_(tensor.detach(), 1 - decay)

    @torch.no_grad()
    def swap(self, network: nn.Module) -> None:
        """Exchange the network's weights and the averaged ones; a second call exchanges them back."""
        for name, tensor in self._tracked(network):
            held = tensor.detach().clone()
            tensor.copy_(self.shadow[name])
            self.shadow[name] = held

    def state_dict(self) -> dict[str, object]:
        """State for the checkpoint."""
        return {"steps": self.steps, "shadow": self.shadow}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Take the state of a checkpoint."""
        self.steps = int(state["steps"])  # type: ignore[call-overload]
        for name, tensor in state["shadow"].items():  # type: ignore[attr-defined]
            self.shadow[name].copy_(tensor)
