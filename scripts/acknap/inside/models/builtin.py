"""The models that `capture` has built in: random, real-sized, one of each kind.

Runs inside an environment with torch, under `torch.device("meta")`.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Built(NamedTuple):
    """A model and what it is called with."""

    model: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


class Sizes(NamedTuple):
    """Of language models; of a net, its width and depth, and of its batch of images."""

    width: int
    heads: int
    layers: int
    vocabulary: int
    length: int
    experts: int
    net: tuple[int, int]
    images: tuple[int, ...]


LARGE = Sizes(2048, 16, 8, 32000, 2048, 8, (64, 5), (8, 3, 256, 256))


class Norm(nn.Module):
    """Root mean square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x * scale).to(x.dtype) * self.weight


class Attention(nn.Module):
    """Multi-head attention with one projection in and one out."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 3 * width, bias=False)
        self.outer = nn.Linear(width, width, bias=False)
        self.heads, self.causal = heads, causal

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (p.view(shape).transpose(1, 2) for p in self.inner(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.outer(y.transpose(1, 2).reshape(batch, length, width))


class Gated(nn.Module):
    """A gated feed-forward layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 11 * width // 4
        self.up = nn.Linear(width, inner, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Every token goes through two of the experts; all have room for an equal share."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, width, 2 * width))
        self.down = nn.Parameter(torch.empty(experts, 2 * width, width))

    def forward(self, x: Any) -> Any:
        tokens = x.reshape(-1, x.shape[-1])
        experts = self.router.out_features
        # The expert chooses its tokens, so that all shapes are known.
        share = self.router(tokens).softmax(-1).T
        weight, chosen = share.topk(2 * len(tokens) // experts, dim=-1)
        picked = tokens[chosen]
        done = torch.bmm(F.gelu(torch.bmm(picked, self.up)), self.down)
        done = (done * weight.unsqueeze(-1)).reshape(-1, x.shape[-1])
        mixed = torch.zeros_like(tokens).index_add(0, chosen.reshape(-1), done)
        return mixed.view_as(x)


class Layer(nn.Module):
    """Attention, then a feed-forward part, each on a normed branch."""

    def __init__(
        self, width: int, heads: int, feed: nn.Module, *, causal: bool
    ) -> None:
        super().__init__()
        self.first, self.second = Norm(width), Norm(width)
        self.attention = Attention(width, heads, causal=causal)
        self.feed = feed

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.first(x))
        return x + self.feed(self.second(x))


class Language(nn.Module):
    """Embedding, layers, and the loss of predicting a token at every place."""

    def __init__(self, vocabulary: int, width: int, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(*layers)
        self.norm = Norm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any, targets: Any) -> Any:
        logits = self.head(self.norm(self.layers(self.embedding(tokens))))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, entering: int, leaving: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(entering, leaving, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(leaving, leaving, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(leaving) for _ in range(2))
        self.shortcut = nn.Conv2d(entering, leaving, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.shortcut(x))


class Net(nn.Module):
    """A U of convolutions: down to small images, up again beside what was there."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(depth)]
        self.enter = Block(3, width, 1)
        steps = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(Block(a, b, 2) for a, b in steps)
        self.up = nn.ModuleList(Block(a + b, a, 1) for a, b in reversed(steps))
        self.leave = nn.Conv2d(width, 3, 1)

    def forward(self, image: Any, target: Any) -> Any:
        x, passed = self.enter(image), []
        for block in self.down:
            passed.append(x)
            x = block(x)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat((x, passed.pop()), 1))
        return F.mse_loss(self.leave(x), target)


class Residual(nn.Module):
    """Convolutions of one width with group norm and SiLU, each beside a shortcut."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        steps = (nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.steps = nn.ModuleList(steps)
        self.norms = nn.ModuleList(nn.GroupNorm(4, width) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        for step, norm in zip(self.steps, self.norms, strict=True):
            x = x + F.silu(norm(step(x)))
        return x.square().mean()


def _language(
    of: Sizes, make_feed: Callable[[], nn.Module], *, causal: bool = True
) -> Built:
    layers: list[nn.Module] = [
        Layer(of.width, of.heads, make_feed(), causal=causal) for _ in range(of.layers)
    ]
    texts = (torch.empty(4, of.length, dtype=torch.long) for _ in range(2))
    return Built(Language(of.vocabulary, of.width, layers), tuple(texts), {})


def _decoder(of: Sizes) -> Built:
    return _language(of, lambda: Gated(of.width))


def _encoder(of: Sizes) -> Built:
    def feed() -> nn.Module:
        enter, leave = (
            nn.Linear(of.width, 4 * of.width),
            nn.Linear(4 * of.width, of.width),
        )
        return nn.Sequential(enter, nn.GELU(), leave, nn.Dropout(0.1))

    return _language(of, feed, causal=False)


def _convnet(of: Sizes) -> Built:
    return Built(Net(*of.net), tuple(torch.empty(of.images) for _ in range(2)), {})


def _moe(of: Sizes) -> Built:
    fewer = of._replace(layers=min(of.layers, 6))
    return _language(fewer, lambda: Experts(of.width, of.experts))


BUILT_IN = {"decoder": _decoder, "encoder": _encoder, "convnet": _convnet, "moe": _moe}
