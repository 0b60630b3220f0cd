"""The gradient: of all own tokens of all processes, however they are cut into parts."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from agent_envs.baselines.batch import Batch, nothing
from agent_envs.baselines.losses import LOSSES, Clip, k3, ratios, truncated, unbiased_kl
from agent_envs.baselines.model import Likelihood
from agent_envs.baselines.processes import Processes, learnable, whole
from agent_envs.baselines.settings import Args, Paced

KL_GRADIENTS = ("k3", "unbiased")
LEAST = 1e-3
"""The size of a weight that is smaller, for relative steps: zeros have to begin somewhere."""


def accumulate(
    model: Likelihood,
    batch: Batch,
    args: Args,
    reference: Likelihood | None = None,
    size: float | None = None,
    processes: Processes | None = None,
) -> dict[str, float]:
    """Add the gradient of the loss: the sum over own tokens, divided by `size`, which is their
    number on all processes if it is not given. `args.rows` rows are in memory at once.

    Returns the loss, the share of tokens whose ratio is out of bounds, and the furthest ratio, on
    all processes.
    """
    alone = processes or Processes(count=1)
    size = size or alone.total(float(batch.own.sum()))
    loss, clipped, furthest = 0.0, 0.0, 0.0
    for part in in_step(list(batch.parts(args.rows)), alone):
        with computing(args):
            new = model(part)
            mean = _terms(new, part, args, reference)[part.own].sum() / size
        torch.autograd.backward(mean * alone.count)  # FSDP takes the mean over processes
        off = (ratios(new.detach(), part.old) - 1)[part.own]
        outside = (off < -args.clip_low) | (off > args.clip_high)
        loss, clipped = loss + mean.item(), clipped + outside.sum().item()
        furthest = max([furthest, *off.abs().tolist()])
    found = alone.gather((loss, clipped, furthest))
    losses, outsides, furthests = zip(*found, strict=True)
    count = alone.total(float(batch.own.sum()))
    return {
        "loss": sum(losses),
        "clipped": sum(outsides) / count,
        "ratio_off": max(furthests),
    }


def _terms(new: Tensor, part: Batch, args: Args, reference: Likelihood | None) -> Tensor:
    """The loss of every token, (rows, length)."""
    bounds = Clip(args.clip_low, args.clip_high, args.clip_dual)
    terms = LOSSES[args.loss](new, part.old, part.advantages, part.own, bounds) * part.weights
    if reference is None:
        return terms
    with torch.no_grad():
        known = reference(part)
    if args.kl_gradient == "k3":
        return terms + args.kl * k3(new, known)
    return terms + args.kl * unbiased_kl(new, known, part.old)


@torch.no_grad()
def corrected(model: Likelihood, batch: Batch, args: Args, processes: Processes) -> Batch:
    """The batch with the learner's own log-probs in place of the sampler's, and its tokens weighed
    by how much these differ."""
    with computing(args):
        found = [model(part) for part in in_step(list(batch.parts(args.rows)), processes)]
    old = torch.cat(found[: -(-len(batch.tokens) // args.rows)])
    return replace(batch, old=old, weights=batch.weights * truncated(old, batch.old, args.tis))


def adamw(model: Likelihood, args: Args) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter, 2019) without weight decay; `set_rate` sets its rate."""
    learned = learnable(model)
    groups = [[weight] for weight in learned] if args.relative else [learned]
    return torch.optim.AdamW([{"params": some} for some in groups], weight_decay=0.0)


def set_rate(optimizer: torch.optim.Optimizer, args: Args, update: int) -> None:
    """Set the learning rate of an update, the first of which is 1. With `relative` it is in
    proportion to the root mean square of each weight, which counts as `LEAST` if it is less
    (Shazeer and Stern, 2018, Adafactor, arXiv:1804.04235, section 8). Deviation: the rest is Adam.
    """
    now = rate(args, update, args.updates)
    for group in optimizer.param_groups:
        group["lr"] = now
        if args.relative:
            (weight,) = group["params"]
            group["lr"] *= max(LEAST, float(whole(weight.detach()).square().mean().sqrt()))


def rate(pace: Paced, step: int, steps: int) -> float:
    """The learning rate of a step, the first of which is 1: it rises evenly at first, and falls
    evenly then, where `pace` says so."""
    if step <= pace.warmup:
        return pace.learning_rate * step / pace.warmup
    left = (steps + 1 - step) / (steps + 1 - pace.warmup)
    return pace.learning_rate * (left if pace.decay else 1.0)


def in_step(parts: Sequence[Batch], processes: Processes) -> list[Batch]:
    """As many parts as the process with most has: those that a spread model has to be read with,
    since all processes read together."""
    missing = max(processes.gather(len(parts))) - len(parts)
    return [*parts, *[nothing(str(parts[0].tokens.device))] * missing]


@contextlib.contextmanager
def computing(args: Args) -> Iterator[None]:
    """Matrix products in the precision that is wanted."""
    kind = args.device.partition(":")[0]
    wanted = args.precision != "float32"
    with torch.autocast(kind, getattr(torch, args.precision) if wanted else None, enabled=wanted):
        yield
