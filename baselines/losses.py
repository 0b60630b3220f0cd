"""The formulas of the loss, token by token."""

import torch
from torch import Tensor


def surrogate(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """-min(rho A, clip(rho, 1 - low, 1 + high) A) (Schulman et al., 2017, PPO, arXiv:1707.06347,
    equation 7), token by token.

    Deviation: the two sides may differ (DAPO, arXiv:2503.14476, section 3.1).
    """
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def k3(new: Tensor, reference: Tensor) -> Tensor:
    """exp(ref - new) - (ref - new) - 1, an estimate of KL(new || ref) that is never negative
    (Schulman, 2020, "Approximating KL divergence"; Shao et al., 2024, equation 4).

    No deviation: so its gradient is not that of the KL divergence.
    """
    gap = (reference - new).clamp(-20, 20)
    return gap.exp() - gap - 1
