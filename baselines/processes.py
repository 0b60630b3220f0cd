"""The learner on several processes: weights spread with FSDP, one gradient of all their tokens."""

import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from agent_envs.baselines.model import Likelihood


class Processes:
    """This process among those that `torchrun` started; alone where it started none."""

    def __init__(self, device: str = "cpu", wait: float = 3600.0, count: int | None = None) -> None:
        """`count`: 1 for this one alone, whatever started it. `wait`: how long one waits for
        another that is still playing, in seconds. No collective of the learner is open meanwhile,
        so that its own, shorter limit does not end the run."""
        self.rank = int(os.environ.get("RANK", 0))
        self.count = count or int(os.environ.get("WORLD_SIZE", 1))
        self._wait = timedelta(seconds=wait)
        self._patient: dist.ProcessGroup | None = None
        self._opened = False
        if self.count > 1:
            if not dist.is_initialized():
                dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
                self._opened = True
            self._patient = dist.new_group(backend="gloo", timeout=self._wait)

    def device(self, wanted: str) -> str:
        """The GPU of this process where GPUs are wanted, one each."""
        if self.count > 1 and wanted == "cuda":
            return f"cuda:{os.environ.get('LOCAL_RANK', self.rank)}"
        return wanted

    def meet(self) -> None:
        """Wait until all are here. Raises RuntimeError, naming who is not, when time is up."""
        if self.count > 1:
            dist.monitored_barrier(self._patient, self._wait, wait_all_ranks=True)

    def total(self, number: float) -> float:
        """The sum over processes."""
        return float(sum(self.gather(number)))

    def gather(self, thing: Any) -> list[Any]:
        """What each process has, in order; they wait for one another as in `meet`."""
        if self.count == 1:
            return [thing]
        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, thing, self._patient)
        return found

    def spread(self, likelihood: Likelihood) -> None:
        """Shard the weights over all processes, layer by layer (Zhao et al., 2023, FSDP,
        arXiv:2304.11277)."""
        if self.count > 1:
            for part in (*likelihood.model.layers(), likelihood):
                fully_shard(part, reshard_after_forward=True)

    def close(self) -> None:
        """Leave the others."""
        if self._opened:
            dist.destroy_process_group()


class Learner:
    """What is learned and its optimiser as one part of a checkpoint, whole, however it is spread: a
    run may go on with another number of processes. All of them save and load together."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._weights = {n: w for n, w in model.named_parameters() if w.requires_grad}

    def publish(self, player: nn.Module) -> None:
        """Copy the weights into a module of the same form, in its own type."""
        there = dict(player.named_parameters())
        with torch.no_grad():
            for name, weight in self._weights.items():
                there[name].copy_(whole(weight))

    def state_dict(self) -> dict[str, Any]:
        """The weights, and what the optimiser keeps of each."""
        kept = self._optimizer.state
        return {
            "weights": {name: whole(w.detach()) for name, w in self._weights.items()},
            "optimizer": {
                name: {key: whole(value) for key, value in kept[w].items()}
                for name, w in self._weights.items()
                if w in kept
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse; every process has read the same file."""
        with torch.no_grad():
            for name, weight in self._weights.items():
                weight.copy_(_like(weight, state["weights"][name]))
        for name, kept in state["optimizer"].items():
            weight = self._weights[name]
            self._optimizer.state[weight] = {k: _like(weight, v) for k, v in kept.items()}


def _like(weight: Tensor, full: Tensor) -> Tensor:
    """A whole tensor, spread as a weight is. (A count of steps has no shape and stays whole.)"""
    if not isinstance(weight, DTensor) or full.dim() == 0:
        return full
    return distribute_tensor(full, weight.device_mesh, weight.placements)


def whole(weight: Tensor) -> Tensor:
    """All of a weight that may be spread; every process asks for it."""
    return weight.full_tensor() if isinstance(weight, DTensor) else weight


def learnable(module: nn.Module) -> list[nn.Parameter]:
    """The weights that are learned."""
    return [weight for weight in module.parameters() if weight.requires_grad]
