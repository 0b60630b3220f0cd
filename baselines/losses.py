"""The formulas of the loss, token by token: one function an option, all called alike.

`new`, `old` and `advantages` are (rows, length); `own` marks the tokens that count. `old` are the
log-probs before the update.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Clip:
    """How far a ratio of probabilities counts."""

    low: float = 0.2
    high: float = 0.2
    dual: float = 3.0
    """The bound of `dual_clip`, over 1."""


Loss = Callable[[Tensor, Tensor, Tensor, Tensor, Clip], Tensor]


def ratios(new: Tensor, old: Tensor) -> Tensor:
    """new / old as probabilities, kept finite."""
    return (new - old).clamp(-20, 20).exp()


def surrogate(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """-min(rho A, clip(rho, 1 - low, 1 + high) A) (Schulman et al., 2017, PPO, arXiv:1707.06347,
    equation 7), token by token.

    Deviation: the two sides may differ (DAPO, arXiv:2503.14476, section 3.1).
    """
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def clip(new: Tensor, old: Tensor, advantages: Tensor, own: Tensor, bounds: Clip) -> Tensor:
    """`surrogate` with a ratio for each token."""
    return surrogate(ratios(new, old), advantages, bounds.low, bounds.high)


def dual_clip(new: Tensor, old: Tensor, advantages: Tensor, own: Tensor, bounds: Clip) -> Tensor:
    """The same, but for a negative advantage at most -c A (Ye et al., 2020, arXiv:1912.09729,
    equation 5): a token that became far likelier cannot outweigh the rest. No deviation."""
    terms = clip(new, old, advantages, own, bounds)
    return torch.where(advantages < 0, torch.minimum(terms, -bounds.dual * advantages), terms)


def cispo(new: Tensor, old: Tensor, advantages: Tensor, own: Tensor, bounds: Clip) -> Tensor:
    """-sg(min(rho, 1 + high)) A log pi (MiniMax, 2025, CISPO, arXiv:2506.13585, section 3.1): the
    weight is clipped, and every token keeps its gradient. No lower bound, as in the paper's runs.
    """
    return -ratios(new, old).detach().clamp(max=1 + bounds.high) * advantages * new


def gspo(new: Tensor, old: Tensor, advantages: Tensor, own: Tensor, bounds: Clip) -> Tensor:
    """`surrogate` with one ratio a row, exp(mean over its own tokens of log rho) (Zheng et al.,
    2025, GSPO, arXiv:2507.18071, equations 7 and 14; the token form, so that turns may differ in
    their advantage). The paper clips at 3e-4 and 4e-4. Deviation: a mean over tokens, not rows.
    """
    off = torch.where(own, new - old, 0.0)
    mean = (off.sum(1, keepdim=True) / own.sum(1, keepdim=True).clamp(min=1)).detach()
    ratio = (mean + new - new.detach()).clamp(-20, 20).exp()
    return surrogate(ratio, advantages, bounds.low, bounds.high)


LOSSES: dict[str, Loss] = {"clip": clip, "dual_clip": dual_clip, "cispo": cispo, "gspo": gspo}
"""The losses, by name."""


def truncated(old: Tensor, sampled: Tensor, bound: float) -> Tensor:
    """min(old / sampled, C): the weight of a token where sampler and learner disagree about it
    (Yao et al., 2025, "Your efficient RL framework secretly brings you off-policy RL training")."""
    return ratios(old, sampled).clamp(max=bound).detach()


def k3(new: Tensor, reference: Tensor) -> Tensor:
    """exp(ref - new) - (ref - new) - 1, an estimate of KL(new || ref) that is never negative
    (Schulman, 2020, "Approximating KL divergence"; Shao et al., 2024, equation 4).

    No deviation: so its gradient is not that of the KL divergence.
    """
    gap = (reference - new).clamp(-20, 20)
    return gap.exp() - gap - 1


def unbiased_kl(new: Tensor, reference: Tensor, old: Tensor) -> Tensor:
    """The value of `k3` with the gradient of the KL divergence: rho (log new - log ref) grad log
    new, in the mean over tokens sampled by `old` (Tang and Munos, 2025, arXiv:2506.09477).

    Deviation: token by token, without what a token does to later ones.
    """
    push = (ratios(new, old) * (new - reference)).detach() * new
    return k3(new, reference).detach() + push - push.detach()
