"""Is the trainer right and quick on this device? A table, and all figures as JSON.

    python -m agent_envs.baselines.gpu_check [--device cuda] [--out FILE.json] [--tiny]

Sets the model of about half a billion weights, made on the spot, beside what the device can do:
writing a token costs at least one look at all weights, learning at least six products a weight and
token. `--tiny` runs the same on a small model, to try it on a CPU.
"""

import argparse
import copy
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from agent_envs.baselines.batch import Batch
from agent_envs.baselines.hf import HuggingFace
from agent_envs.baselines.learning import accumulate
from agent_envs.baselines.model import Likelihood, Model
from agent_envs.baselines.reader import Reader
from agent_envs.baselines.settings import Args
from agent_envs.baselines.train import configure
from agent_envs.baselines.transformer import Shape, Transformer


@dataclass(frozen=True)
class Scale:
    """How large everything is."""

    width: int
    layers: int
    heads: int
    vocabulary: int
    rows: int
    """Conversations at once."""
    prompt: int
    """Tokens of a prompt, shared by a group of eight."""
    own: int
    """Tokens written in each conversation."""
    square: int
    """The side of the matrices that the floors are measured with."""
    updates: int
    """Of the workshop."""


FULL = Scale(896, 24, 14, 151_936, 64, 512, 128, 8192, 10)
TINY = Scale(64, 2, 4, 512, 8, 24, 8, 256, 1)


@dataclass
class Line:
    """One figure beside what it is compared with."""

    what: str
    value: float
    unit: str
    limit: float
    """What it should be at most; for a time, what the device allows by arithmetic."""

    def told(self) -> str:
        """A line of the table."""
        times = f"{self.value / self.limit:8.2f}x" if self.limit else ""
        return f"{self.what:44}{self.value:14.4g} {self.unit:9}{self.limit:14.4g}{times}"


def check(device: str, scale: Scale) -> list[Line]:
    """All figures. Raises what goes wrong on the device."""
    lines = agreement(device)
    precision = torch.bfloat16 if device.startswith("cuda") else torch.float32
    model = made(scale).to(device)
    lines += generation(copy.deepcopy(model).to(precision), scale)
    lines += learning(model, scale, precision)
    return lines + workshop(device, scale)


def agreement(device: str) -> list[Line]:
    """Log-probs here and on a CPU, of both kinds of model."""
    lines = []
    small = made(TINY)
    for name, model in (("transformer", Transformer(Shape(), seed=0)), ("transformers", small)):
        batch = tokens(TINY, 17, "cpu")
        likelihood = Likelihood(model, whole=False)
        with torch.no_grad():
            wanted = likelihood(batch)
            there = copy.deepcopy(likelihood).to(device)
            got = there(batch.to(device)).cpu()
        off = float((got - wanted).abs().max())
        lines.append(Line(f"log-probs of {name}, CPU and {device} differ", off, "nats", 1e-3))
    return lines


def generation(model: Model, scale: Scale) -> list[Line]:
    """Reading prompts, and writing one token in every conversation."""
    reader, rows = Reader(model, fill=True), scale.rows
    reader.cache.grow(rows)
    slots, prompt = list(range(rows)), [list(range(1, scale.prompt + 1))] * rows
    reading = timed(lambda: reader.read(prompt, [0] * rows, slots), 2)
    at = [scale.prompt]

    def write() -> None:
        reader.read([[1]] * rows, at * rows, slots)
        at[0] += 1

    writing = timed(write, scale.own - 2)
    weights = sum(w.numel() * w.element_size() for w in model.parameters())
    past = reader.cache.data[:, :, :, : at[0]].numel() * reader.cache.data.element_size()
    like, speed = model.weight, matmul_speed(model.weight, scale.square)
    floor = (weights + past) / bandwidth(like, scale.square)
    products = 2 * count(model) * rows / speed
    return [
        Line(f"reading {rows} x {scale.prompt} tokens", reading, "s", products * scale.prompt),
        Line(f"writing {rows} tokens", writing, "s", max(floor, products)),
        Line("tokens written", rows / writing, "/s", 0.0),
    ]


def learning(model: Model, scale: Scale, precision: torch.dtype) -> list[Line]:
    """One gradient, with and without sharing the prompts of groups."""
    device = str(model.weight.device)
    named = {torch.bfloat16: "bfloat16", torch.float32: "float32"}[precision]
    args = Args(device=device, precision=named, rows=16)
    speed = matmul_speed(model.weight.to(precision), scale.square)
    lines = []
    for shared in (scale.prompt - 1, 0):
        batch = tokens(scale, scale.vocabulary, device)
        batch.shared[:] = shared
        spent = timed(lambda b=batch: accumulate(Likelihood(model, whole=False), b, args), 1)  # type: ignore[misc]
        prompts = scale.rows // 8 * shared
        read = prompts + scale.rows * (scale.prompt + scale.own - shared)
        name = "prompts shared" if shared else "prompts not shared"
        floor = 6 * count(model) * read / speed
        lines.append(Line(f"a gradient, {name}, {read} tokens", spent, "s", floor))
    model.zero_grad()
    return lines


def workshop(device: str, scale: Scale) -> list[Line]:
    """A few updates of the workshop, from the start."""
    from agent_envs.baselines.grpo import train

    args = configure("workshop", [f"device={device}", f"updates={scale.updates}"])
    with tempfile.TemporaryDirectory() as out:
        summary = train(args, Path(out), quiet=True)
        rows = [json.loads(x) for x in (Path(out) / "metrics.jsonl").read_text().splitlines()]
    furthest = max(row["ratio_off"] for row in rows[1:])
    return [
        Line("workshop, an update", summary["seconds_per_update"], "s", 0.0),
        Line("workshop, sampled and trained differ by", furthest, "", 1e-4),
    ]


def made(scale: Scale) -> HuggingFace:
    """A model as `transformers` makes it, untrained."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=scale.vocabulary,
        hidden_size=scale.width,
        intermediate_size=scale.width * 38 // 7,
        num_hidden_layers=scale.layers,
        num_attention_heads=scale.heads,
        num_key_value_heads=2,
        max_position_embeddings=2 * (scale.prompt + scale.own),
        tie_word_embeddings=True,
    )
    return HuggingFace(Qwen2ForCausalLM(config))


def tokens(scale: Scale, vocabulary: int, device: str) -> Batch:
    """Rows of a prompt and own tokens, in groups of eight."""
    size = (scale.rows, scale.prompt + scale.own)
    drawn = torch.randint(vocabulary, size, generator=torch.Generator().manual_seed(0))
    group = torch.arange(scale.rows) // 8 * 8
    drawn[:, : scale.prompt] = drawn[group, : scale.prompt]
    own = (torch.arange(size[1]) >= scale.prompt).repeat(scale.rows, 1)
    shared = torch.full((scale.rows,), scale.prompt - 1)
    zeros, ones = torch.zeros(size), torch.ones(size)
    return Batch(drawn, own, zeros, ones, group, shared, ones).to(device)


def count(model: Model) -> int:
    """How many weights take part in a token; an embedding that is also the head counts once."""
    return sum(weight.numel() for weight in model.parameters())


def bandwidth(like: torch.Tensor, side: int) -> float:
    """Bytes a second that can be read: a sum over much memory."""
    large = torch.ones(side * side * 4, device=like.device, dtype=like.dtype)
    return large.numel() * large.element_size() / timed(large.sum, 5)


def matmul_speed(like: torch.Tensor, side: int) -> float:
    """Floating-point operations a second of a large product."""
    a = torch.ones(side, side, device=like.device, dtype=like.dtype)
    return 2 * side**3 / timed(lambda: a @ a, 5)


def timed(work: Callable[[], object], times: int) -> float:
    """Seconds that it takes, once it has been done twice."""
    for _ in range(2):
        work()
    _finish()
    began = time.perf_counter()
    for _ in range(times):
        work()
    _finish()
    return (time.perf_counter() - began) / times


def _finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table and write the figures: 0 if everything agrees, 1 if something does not."""
    parser = argparse.ArgumentParser("gpu_check", description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(argv)
    began = time.perf_counter()
    lines = check(options.device, TINY if options.tiny else FULL)
    print(f"{'':44}{'measured':>14} {'':9}{'limit':>14}")
    print("\n".join(line.told() for line in lines))
    wrong = [x.what for x in lines if "differ" in x.what and not x.value <= x.limit]
    found: dict[str, Any] = {"lines": [asdict(line) for line in lines], "wrong": wrong}
    found |= {"device": options.device, "torch": torch.__version__}
    if options.device.startswith("cuda"):
        found["name"] = torch.cuda.get_device_name(options.device)
    found["seconds"] = time.perf_counter() - began
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
