"""Everything that decides a run."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_envs.baselines.shaping import Shaping


class Paced(Protocol):
    """Whatever says how fast is learned, step by step; see `learning.rate`."""

    learning_rate: float
    warmup: int
    decay: bool


@dataclass
class Lesson:
    """One way of teaching: how long, in what portions, how fast."""

    steps: int
    batch: int
    learning_rate: float
    warmup: int = 0
    """Over how many steps the learning rate rises to that."""
    decay: bool = False
    """Whether it then falls evenly, to nothing at the end."""
    max_grad_norm: float = 0.0
    """Longer gradients are shortened to this; 0 for never."""


@dataclass
class Player:
    """Which model plays."""

    kind: str = "chars"
    """`chars`: the workshop's. `bpe`: a transformer and a tokenizer made from scratch, for the
    `hermes` protocol. `hf`: a model of `transformers`."""
    path: str = ""
    """With `hf`: a folder, a GGUF file, or a name on a hub."""
    lora: int = 0
    """With `hf`: the rank of adapters to train in place of the weights; 0 trains them all."""
    native_tools: bool = False
    """With `hf`: the chat template describes the tools, instead of the environment."""
    thinking: bool = False
    """With `hf`: what the chat template is told as `enable_thinking`."""
    append: bool = False
    """With `hf`: a turn may go on behind what the chat template had put before the last one and
    leaves out later, like the empty thoughts of Qwen3. Otherwise a new row begins there."""
    engine: str = "own"
    """Who generates: `own`, or with `hf` also `vllm`, which must be installed. Its log-probs are a
    little other than the learner's where it computes in bfloat16: set `tis` to 2."""
    engine_settings: dict[str, Any] = field(default_factory=dict)
    """What else `vllm.LLM` is made with, as in `policy.engine_settings.gpu_memory_utilization=0.4`:
    it shares the GPU with the learner."""
    vocabulary: int = 512
    """With `bpe`: how many tokens, at most."""
    memory: int = 0
    """With `bpe`: how many of the last messages of tools the model has in sight, beside the prompt
    and its turns; 0 for all. Where pages are long, the one that is open may be enough."""
    rope_base: float = 100.0
    """With `chars` and `bpe`: of rotary positions."""


@dataclass
class Args:
    """Everything that decides a run. The defaults are the published workshop."""

    env: str = "agent/CalculatorChars-v0"
    """The id of the environment."""
    level: int = 0
    """Which level of tasks."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """What else the environment is made with, as in `--set arguments.page_chars=1600`."""
    max_turns: int = 4
    """The longest episode, in turns."""
    tool_docs: bool = True
    """Whether the environment describes its tools; a model made from scratch learns them."""
    fault_rate: float = 0.0
    """How often the tool lies during training, from 0 to 1."""
    seed: int = 0
    """Moves the first weights, worksheets, demonstrations and everything sampled; not the tasks."""
    device: str = "cpu"
    """`cpu`, or `cuda`; a model as small as the workshop's is no faster there."""
    threads: int = 1
    """How many CPU threads torch may use."""
    precision: str = "float32"
    """`float32`, or `bfloat16`: the model is sampled from and computed with in it, the weights that
    are learned stay float32."""

    policy: Player = field(default_factory=Player)
    positions: str = "learned"
    """`learned`: absolute positions, as published. `rope`: rotary ones."""
    layers: int = 2
    """How many transformer blocks."""
    width: int = 128
    """The width of the model."""
    heads: int = 4
    """How many attention heads."""
    context: int = 64
    """The longest conversation, in tokens."""

    worksheets: Lesson = field(default_factory=lambda: Lesson(300, 32, 1e-3))
    """Pre-training: single-digit sums with `chars`, copying with `bpe`."""
    practice: int = 0
    """0: the training tasks are those that the environment ships. Otherwise up to so many of the
    level, as it makes them on request; see `TaskSource.more`."""
    shown: int = 30
    """How many training tasks are demonstrated."""
    teacher: str = "oracle"
    """Who demonstrates: `oracle`, or `vote`, which asks until two results agree."""
    teacher_fault_rate: float = 0.0
    """How often the tool lies to the teacher."""
    demonstrations: Lesson = field(default_factory=lambda: Lesson(200, 8, 1.5e-3))
    """Fine-tuning on what was demonstrated."""
    renamed: float = 0.0
    """How often a demonstration is told with other names and numbers, from 0 to 1: what the teacher
    copied has to be copied again, and cannot be known by heart; see `renaming.py`."""

    updates: int = 40
    """How many updates of reinforcement learning."""
    tasks: int = 8
    """How many groups an update asks for."""
    group: int = 8
    """How many episodes of one task are compared with each other."""
    draws: int = 1
    """Dynamic sampling: groups in which all succeed or all fail are dropped, and others drawn for
    them, up to so many draws. 1 draws once and keeps what is mixed."""
    curriculum: str = "uniform"
    """Which tasks come first: `uniform`, `uncertain`, or `module:function`; see `curriculum.py`."""
    temperature: float = 1.0
    """Of sampling; the learner divides by it too. (There is no top-p: what it leaves out would make
    sampled and trained probabilities differ.)"""
    turn_limit: int = 12
    """The longest turn, in tokens."""
    workers: int = 256
    """How many environments play at once, at most."""
    slots: int = 256
    """How many conversations are kept in the policy's cache, ended ones included; 0 for as many as
    play at once."""
    step_deadline: float = 60.0
    """How long an environment may take for a step, in seconds."""
    episode_deadline: float = 600.0
    """How long an episode may last, in seconds."""
    shaping: Shaping = field(default_factory=Shaping)
    credit: str = "leave_one_out"
    """`leave_one_out` or `group_normalised`: one advantage for the whole episode. `turn_values`:
    one for each turn, from continuations played at the turn's ends."""
    continuations: int = 1
    """With `turn_values`: how many are played from the start of each turn but the first, K."""
    blame: float = 1.0
    """How much an advantage below 0 counts, from 0 to 1; see `credit.blamed`."""

    loss: str = "clip"
    """`clip`, `dual_clip`, `cispo` or `gspo`; see `losses.py`."""
    clip_low: float = 0.2
    """The ratio of new to old probability counts down to 1 minus this."""
    clip_high: float = 0.2
    """The ratio counts up to 1 plus this."""
    clip_dual: float = 3.0
    """With `dual_clip`: the bound where the advantage is negative."""
    constant: int = 0
    """0: the loss is a mean over own tokens. Otherwise their sum, over the number of episodes and
    this (Dr.GRPO, arXiv:2503.20783, section 3.2: the most tokens that an episode may have)."""
    tis: float = 0.0
    """Truncated importance sampling: the learner works out log-probs of its own, and a token counts
    by how much it is likelier there than it was to the sampler, up to this. 0: they agree."""
    kl: float = 0.0
    """The weight of KL(policy || fine-tuned model)."""
    kl_gradient: str = "k3"
    """`k3`: that of the estimate; `unbiased`: that of the divergence."""
    learning_rate: float = 3e-4
    """Of AdamW, without weight decay."""
    warmup: int = 0
    """Over how many updates the learning rate rises to that."""
    decay: bool = False
    """Whether it then falls evenly, to nothing at the end."""
    relative: bool = False
    """Whether it is in proportion to the size of each weight: gains, which are about 1, then learn
    as fast as matrices, which are about 0.05."""
    epochs: int = 1
    """How many times an update goes through its episodes."""
    rows: int = 512
    """How many episodes are in memory at once in the learner; the gradient is that of all."""
    share: int = 0
    """Prompts from so many tokens on are read once for their group, when playing and when learning,
    and logits are made of own tokens alone; 0 for never."""
    max_grad_norm: float = 1.0
    """Longer gradients are shortened to this."""

    evaluate_every: int = 10
    """After how many updates the held-out tasks are played, greedily and sampled."""
    evaluation_fault_rate: float = 0.3
    """How often the tool lies in one of the evaluations."""
    examination: int = 0
    """0, or with how many samples of each held-out task the model is examined: pass@k, the
    adversarial split, and a curve over fault rates."""
    examine_every: int = 0
    """After how many updates it is examined besides; 0 for the end alone."""
    checkpoint_every: int = 10
    """After how many updates a checkpoint is written."""
    wait: float = 3600.0
    """How long processes wait for one another, in seconds."""
    export: bool = False
    """Whether the model is left in the folder as safetensors, with its tokenizer."""
    wandb: str = ""
    """The project of Weights & Biases to log to, besides; it must be installed."""
