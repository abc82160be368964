from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def entropy_regularised_loss(logits: torch.Tensor, labels: torch.Tensor, zeta: float = 1.0) -> torch.Tensor:
    """Eq. (4): cross-entropy + zeta * Omega, Omega = sum_c phi_c log phi_c, a mean over the rows of a batch.

    Omega is the negative entropy of the predictions, so a positive zeta keeps them from being too sure; 0 is plain
    cross-entropy. `logits` (n, m) are raw scores and `labels` (n) numbers of classes, both PyTorch tensors.

    >>> import torch, labelshift
    >>> logits = torch.zeros(4, 2, requires_grad=True)
    >>> loss = labelshift.entropy_regularised_loss(logits, torch.tensor([0, 1, 1, 1]), zeta=1.0)
    >>> round(loss.item(), 6)  # log 2 - log 2
    0.0
    >>> loss.backward()
    """
    log_probs = logits.log_softmax(dim=1)  # (n, m)
    cross_entropy = -log_probs.gather(1, labels[:, None]).mean()
    omega = (log_probs.exp() * log_probs).sum(dim=1).mean()
    return cross_entropy + zeta * omega
