"""Train a small decoder under an activation memory budget. Runs inside an environment.

Standard library and torch only. ``solvers.py`` loads it.
"""

import torch
import torch._functorch.config as config
import torch.nn.functional as F  # noqa: N812  (torch's own name for it)
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS = 64, 128, 4, 4
BATCH, LENGTH = 8, 128


class Block(nn.Module):
    """Causal attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        self.register_buffer("later", later)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in parts)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        weights = scores.masked_fill(self.later, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Predicts the next token; its call gives the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.place = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens[:, :-1]) + self.place
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


def batch(step: int) -> torch.Tensor:
    """Return sequences in which a token follows from the one before it, mostly."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=generator)
    follows = torch.rand(BATCH, LENGTH, generator=generator) < 0.9
    for place in range(LENGTH):
        rule = (5 * tokens[:, place] + 3) % VOCABULARY
        chance = tokens[:, place + 1]
        tokens[:, place + 1] = torch.where(follows[:, place], rule, chance)
    return tokens


class Trainer:
    """One model in training; its process has no other, so that none shares its plan."""

    def __init__(self, solver: str, budget: float) -> None:
        torch.manual_seed(0)
        self.model = Decoder()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.compiled = torch.compile(
            self.model, backend="aot_eager_decomp_partition", fullgraph=True
        )
        self.done = 0
        with config.patch(
            activation_memory_budget=budget,
            activation_memory_budget_solver=solver,
            activation_memory_budget_runtime_estimator="flops",
        ):
            self.saved_bytes = self._compile()

    def _compile(self) -> int:
        """Return the bytes that a forward pass saves, parameters and input left out."""
        tokens = batch(0)
        known = (*self.model.parameters(), *self.model.buffers(), tokens)
        others = {one.untyped_storage().data_ptr() for one in known}
        saved: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in others:
                saved[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = self.compiled(tokens)
        loss.backward()
        self.optimizer.zero_grad()
        return sum(saved.values())

    def step(self) -> float:
        """Return the loss of one step of training."""
        tokens = batch(self.done)
        self.done += 1
        loss = self.compiled(tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss)
