"""Runs of models that read text: from scratch and from `transformers`, stopped and gone on."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch

from agent_envs.baselines import checkpoint, imitation
from agent_envs.baselines.grpo import Run, train
from agent_envs.baselines.model import Model
from agent_envs.baselines.policy import TokenPolicy
from agent_envs.baselines.presets import PRESETS
from agent_envs.baselines.settings import Args, Lesson, Player
from agent_envs.baselines.shaping import Shaping
from agent_envs.baselines.train import configure, main
from agent_envs.cli import main as cli
from agent_envs.envs.calculator.env import Calculator, CalculatorChars
from agent_envs.rollout import rollout
from agent_envs.trajectory import Trajectory
from agent_envs.turns import Action

pytest.importorskip("tokenizers", reason="pip install '.[hf]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[hf]'")

from agent_envs.baselines import export  # noqa: E402
from tests.baselines.test_players import qwen, tokenizer  # noqa: E402


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder as one downloads it."""
    folder = tmp_path / "published"
    made = tokenizer()
    qwen(len(made)).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


def small(**changes: Any) -> Args:
    """A run of a second or two, in which there is something to learn."""
    settings: dict[str, Any] = {
        "env": "agent/Calculator-v0",
        "policy": Player(kind="bpe", vocabulary=330),
        "positions": "rope",
        "width": 32,
        "context": 160,
        "tool_docs": False,
        "worksheets": Lesson(2, 4, 1e-3),
        "demonstrations": Lesson(3, 4, 1e-3),
        "shown": 4,
        "max_turns": 2,
        "updates": 3,
        "tasks": 2,
        "group": 6,
        "seed": 2,
        "turn_limit": 10,
        "share": 8,
        "slots": 0,
        "evaluate_every": 9,
        "checkpoint_every": 1,
        "shaping": Shaping(overlong=-1.0, limit=24, soft=24, process=f"{__name__}:by_letters"),
    }
    return Args(**(settings | changes))


def by_letters(trajectory: Trajectory) -> list[float]:
    """A number for what each turn says, so that episodes of a group are never all alike."""
    return [crc32(turn.action.text.encode()) / 2**32 for turn in trajectory.turns]


def numbers(out: Path) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in rows]


def weights(out: Path) -> dict[str, torch.Tensor]:
    saved = torch.load(out / checkpoint.NAME, weights_only=True)
    found: dict[str, torch.Tensor] = saved["parts"]["learner"]["weights"]
    return found


@pytest.mark.parametrize("kind", ["bpe", "lora"])
def test_a_run_that_stopped_goes_on_as_if_it_had_not(
    kind: str, tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {"kl": 0.01, "curriculum": "uncertain", "draws": 1}
    if kind == "lora":
        changes["policy"] = Player(kind="hf", path=str(published), lora=2)
        changes["demonstrations"] = changes["worksheets"] = Lesson(0, 1, 1e-3)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(small(**changes), whole, quiet=True)
    with monkeypatch.context() as patch:
        update = Run.update

        def stop(self: Run, number: int) -> dict[str, float]:
            if number == 3:
                raise KeyboardInterrupt
            return update(self, number)

        patch.setattr(Run, "update", stop)
        with pytest.raises(KeyboardInterrupt):
            train(small(**changes), broken, quiet=True)
    train(small(**changes), broken, resume=True, quiet=True)
    assert numbers(broken) == numbers(whole)
    assert all(row["grad_norm"] > 1e-3 and row["ratio_off"] <= 1e-4 for row in numbers(whole)[1:])
    one, two = weights(whole), weights(broken)
    assert one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)
    if kind == "lora":
        assert all("lora" in name for name in one)


def test_a_killed_process_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    """Killed wherever it is, some time after its first checkpoint."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    sets = ["width=32", "worksheets.steps=2", "demonstrations.steps=2", "shown=4", "tasks=2"]
    sets += ["group=3", "draws=1", "examination=0", "checkpoint_every=1", "evaluate_every=50"]
    sets += ["updates=9", "turn_limit=8", "max_turns=2", "shaping.overlong=-1", "shaping.limit=16"]
    flags = [flag for change in (*sets, "shaping.soft=16") for flag in ("--set", change)]
    command = ["calculator", *flags, "--out"]
    program = [sys.executable, "-W", "ignore", "-m", "agent_envs.baselines.train"]
    process = subprocess.Popen([*program, *command, str(broken)], stderr=subprocess.DEVNULL)
    while not (broken / checkpoint.NAME).exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was done before it could be killed"
    assert main([*command, str(whole)]) == main([*command, str(broken), "--resume"]) == 0
    assert numbers(broken) == numbers(whole) and len(numbers(whole)) == 10
    one, two = weights(whole), weights(broken)
    assert all(torch.equal(one[k], two[k]) for k in one)


@pytest.mark.parametrize("kind", ["bpe", "hf", "lora"])
def test_an_exported_model_is_the_model(kind: str, tmp_path: Path, published: Path) -> None:
    changes: dict[str, Any] = {"updates": 1, "export": True}
    if kind != "bpe":
        rank = 2 if kind == "lora" else 0
        changes["policy"] = Player(kind="hf", path=str(published), lora=rank)
        changes["worksheets"] = Lesson(0, 1, 1e-3)
    train(small(**changes), tmp_path / "run", quiet=True)
    folder = tmp_path / "run" / "model"
    assert list(folder.glob("*.safetensors"))
    again: Model | Any
    if kind == "bpe":
        again = export.load(folder)
        saved = again.state_dict()
        wanted = {k.removeprefix("model."): v for k, v in weights(tmp_path / "run").items()}
    elif kind == "hf":
        again = transformers.AutoModelForCausalLM.from_pretrained(folder)
        saved = again.state_dict()
        wanted = {k.removeprefix("model.inner."): v for k, v in weights(tmp_path / "run").items()}
    else:
        from safetensors.torch import load_file

        saved = {
            k.replace(".default", ""): v
            for k, v in load_file(next(folder.glob("adapter*.safetensors"))).items()
        }
        wanted = {
            k.removeprefix("model.inner.").replace(".default", ""): v
            for k, v in weights(tmp_path / "run").items()
        }
    assert wanted and all(torch.equal(saved[name], wanted[name]) for name in wanted)
    assert (folder / "tokenizer.json").exists()


def test_half_precision_and_a_correction_for_it() -> None:
    """The sampler's weights are another copy; tokens are weighed by how far it is off."""
    with Run(small(precision="bfloat16", tis=2.0, draws=1)) as run:
        run.imitate()
        assert run.copy is not None and run.copy.model.weight.dtype == torch.bfloat16
        assert run.model.weight.dtype == torch.float32
        for number in (1, 2):
            before = run.copy.model.weight.clone()
            values = run.update(number)
            assert values["grad_norm"] > 1e-3 and values["ratio_off"] == 0
            assert not torch.equal(before, run.copy.model.weight)


@pytest.mark.parametrize("loss", ["dual_clip", "cispo", "gspo"])
def test_every_loss_runs(loss: str) -> None:
    with Run(small(loss=loss, constant=30, kl=0.1, kl_gradient="unbiased", rows=2)) as run:
        run.imitate()
        values = run.update(1)
        assert values["ratio_off"] <= 1e-4 and values["grad_norm"] > 1e-3


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_one(preset: str) -> None:
    args = configure(preset)
    assert args.updates == (50 if preset == "sql" else 40)
    assert args.turn_limit < args.context


@pytest.mark.parametrize("preset", PRESETS)
def test_a_published_model_learns_as_such_models_do(preset: str) -> None:
    args = configure(preset, ["policy=hf", "policy.path=there"])
    assert (args.learning_rate, args.relative, args.decay, args.blame) == (1e-6, False, False, 1.0)


def test_a_short_name_for_the_kind_of_policy() -> None:
    args = configure("sql", ["policy=hf", "policy.path=there", "policy.native_tools=true"])
    assert (args.policy.kind, args.policy.path, args.policy.native_tools) == ("hf", "there", True)
    assert args.tool_docs and args.worksheets.steps == args.demonstrations.steps == 0
    assert configure("sql", ["policy=hf", "policy.path=x", "rows=3"]).rows == 3
    assert configure("sql").policy.kind == "bpe", "presets do not change"
    for wrong in (["policy=gpt"], ["policy=hf"], ["policy.native_tools=perhaps"], ["loss=luck"]):
        with pytest.raises(ValueError, match="policy|loss|of type"):
            configure("sql", wrong)


def test_who_may_generate(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    vllm = ["policy=hf", f"policy.path={published}", "policy.engine=vllm"]
    assert configure("sql", [*vllm, "policy.engine_settings.seed=3"]).policy.engine_settings == {
        "seed": 3
    }
    for wrong in (["policy.engine=vllm"], ["policy.engine=tgi"], [*vllm, "policy.lora=4"]):
        with pytest.raises(ValueError, match=r"policy\.engine"):
            configure("sql", wrong)
    if importlib.util.find_spec("vllm") is None:
        sets = [x for change in [*vllm, "context=1024"] for x in ("--set", change)]
        assert main(["calculator", "--out", str(tmp_path / "run"), *sets]) == 2
        assert "pip install 'agent-envs[hf,vllm]'" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="in one process"):
        configure("sql", vllm)


def test_a_model_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    sets = ["--set", "policy=hf", "--set", f"policy.path={tmp_path / 'nowhere'}"]
    assert main(["calculator", "--out", str(tmp_path / "run"), *sets]) == 2
    assert "nowhere" in capsys.readouterr().err


def _widen(folder: Path, context: int) -> None:
    """Let a model read further: its positions are rotary, so that no weight depends on it."""
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = context
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("kind", ["chars", "bpe", "hf"])
def test_an_exported_model_plays_from_the_command_line(
    kind: str, tmp_path: Path, published: Path
) -> None:
    changes: dict[str, Any] = {"updates": 1, "export": True, "context": 700, "tool_docs": True}
    if kind == "chars":
        changes |= {"env": "agent/CalculatorChars-v0", "policy": Player(kind="chars")}
    elif kind == "hf":
        _widen(published, 700)
        changes["policy"] = Player(kind="hf", path=str(published))
        changes["worksheets"] = Lesson(0, 1, 1e-3)
    args = small(**changes)
    train(args, tmp_path / "run", quiet=True)
    folder, out = tmp_path / "run" / "model", tmp_path / "played"
    own = f"python:agent_envs.baselines.export:play={folder}"
    command = ["eval", args.env, "--level", "0", "--split", "heldout", "--max-turns", "2"]
    assert cli([*command, "--policy", own, "--out", str(out)]) == 0
    played = [json.loads(line) for line in (out / "trajectories.jsonl").read_text().splitlines()]
    with Run(small(**changes), tmp_path / "run") as run:
        checkpoint.load(tmp_path / "run", run.args, run.parts)
        policy = TokenPolicy(run.likelihood.model, run.codec, 700)
        policy.begin(0, temperature=0.0)
        wanted = rollout(run.exams["heldout"], policy, run.tasks["heldout"], progress=False)
    said = {t["task"]["id"]: [turn["action"]["text"] for turn in t["turns"]] for t in played}
    assert said == {t.task.id: [turn.action.text for turn in t.turns] for t in wanted}
    assert all(map(any, said.values()))


def test_what_all_calls_of_a_tool_share_are_tokens_of_their_own() -> None:
    with Run(small()) as run:
        played = run.shown[0]
        said = imitation.spell(played.turns[0].action, played)
        parts = [run.codec.read([token]) for token in run.codec.write(said)[:-1]]
    begins, ends = '<tool_call>\n{"name": "calculate", "arguments": {', "}}\n</tool_call>"
    assert parts[:2] == [begins, '"expression": '] and parts[-1] == ends
    assert "".join(parts) == said


def test_a_model_of_another_tokenizer_is_not_played(tmp_path: Path) -> None:
    train(small(updates=1, export=True), tmp_path / "run", quiet=True)
    with (
        CalculatorChars(protocol="chars") as env,
        pytest.raises(ValueError, match="tokens in the model"),
    ):
        export.play(env, str(tmp_path / "run" / "model"))
    with Calculator() as env, pytest.raises(OSError):
        export.play(env, str(tmp_path / "nowhere"))


def test_a_published_model_plays_as_its_library_has_it(published: Path) -> None:
    asked = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "67+90?"}]
    with Calculator() as env:
        policy = export.play(env, str(published))
        policy.submit("k", asked)
        while not (answers := policy.collect(0.0)):
            pass
        [(_, action)] = answers
        inner = transformers.AutoModelForCausalLM.from_pretrained(published)
        tokens = policy.codec.open(asked)
        for _ in range(8):
            logits = inner(torch.tensor([tokens])).logits[0, -1]
            tokens.append(int(logits.argmax()))
        begun = len(policy.codec.open(asked))
        assert isinstance(action, Action) and action.sample
        assert action.sample.tokens[:8] == tokens[begun:]
