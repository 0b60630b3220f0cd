"""Checks of one env at a time: Gymnasium's contract, arguments, seeds, limits, vectors."""

import inspect
import itertools
import pickle
import random
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agent_envs.env import ToolEnv
from agent_envs.testing.play import FAULTS, Player, Subject, draw_call, episode, make_with, said
from agent_envs.turns import Malformed


def takes_the_arguments_of_make(subject: Subject) -> None:
    """`__init__` takes what every env takes, and hands it on."""
    given: dict[str, Any] = {"max_turns": 7, "max_calls": 5, "tool_docs": False}
    env = make_with(subject, fault_rate=0.25, max_snapshots=3, render_mode="ansi", **given)
    held = {name: getattr(env, name) for name in given}
    assert held == given, f"made with {given} it has {held}: __init__ must pass its **kwargs on"
    assert env.faults.to_plain() == 0.25, "fault_rate is not passed on to super().__init__"
    assert env.render_mode == "ansi", "render_mode is not passed on to super().__init__"
    env.close()
    env.close()


def ships_an_oracle(subject: Subject) -> None:
    """A gold solution that can be asked for on the class."""
    env = subject.make()
    kind = type(env)
    env.close()
    assert kind.oracle is not ToolEnv.oracle, (
        "it ships no oracle: write `@staticmethod def oracle(task, messages)`, the next move of a "
        "gold solution"
    )
    own = inspect.getattr_static(kind, "oracle")
    assert isinstance(own, staticmethod | classmethod), (
        "oracle() needs @staticmethod above it: it is asked on the class, with a task and the "
        "messages, and has no self"
    )


def passes_gymnasiums_own_check(subject: Subject) -> None:
    """`gymnasium.utils.env_checker.check_env`, with its warnings taken seriously."""
    env = subject.make(fault_rate=FAULTS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=env.spec is None)
    env.close()  # check_env does so only where it can make the env again
    assert not caught, f"check_env warns: {caught[0].message}"


def spec_survives_json_and_pickle(subject: Subject) -> None:
    """An env made from its spec, through JSON and pickle, is equal to the first."""
    env = subject.make(fault_rate=FAULTS, max_turns=9)
    if env.spec is None:
        return
    try:
        again = EnvSpec.from_json(env.spec.to_json())
    except (TypeError, ValueError) as error:
        raise AssertionError(f"spec.to_json: every argument needs a JSON form: {error}") from None
    assert again == env.spec, "EnvSpec.from_json(spec.to_json()) is another spec"
    assert pickle.loads(pickle.dumps(env.spec)) == env.spec, "the spec does not survive pickling"
    twin = gymnasium.make(again).unwrapped
    assert isinstance(twin, ToolEnv)
    first, second = episode(env, 3), episode(twin, 3)
    assert first == second, "an env made from the JSON of its spec plays otherwise"
    env.close()
    twin.close()


def same_seed_same_bytes(subject: Subject) -> None:
    """The same seed and moves give the same episode, whatever the env played before."""
    one, two = subject.make(fault_rate=FAULTS), subject.make(fault_rate=FAULTS)
    before = _on_the_class(one)
    expected = episode(one, 5, 3)
    after = _on_the_class(one)
    same = episode(two, 5, 3) == expected
    changed = sorted(name for name, value in before.items() if after.get(name) != value)
    assert same or not changed, (
        f"the same seed gave another episode, and {changed} of the class changed meanwhile, which "
        "all envs share: what an episode changes belongs in self.state"
    )
    assert same, (
        "the same seed gave another episode: draw from self.rng(stream) alone, and show no clock"
    )
    episode(two, 60, 4)
    assert episode(two, 5, 3) == expected, (
        "after other episodes the same seed gave another one: something survives reset; setup() "
        "must set everything that tools or grade() change"
    )
    one.close()
    two.close()


def _on_the_class(env: ToolEnv) -> dict[str, str]:
    """The attributes of an env's own classes that are plain data, as text."""
    own = type(env).__mro__[: type(env).__mro__.index(ToolEnv)]
    plain = (int, float, str, list, dict, set, tuple, itertools.count)
    return {
        f"{kind.__name__}.{name}": repr(value)
        for kind in own
        for name, value in vars(kind).items()
        if isinstance(value, plain) and not name.startswith("__")
    }


def seed_moves_only_noise(subject: Subject) -> None:
    """With a task given, another seed opens the same; without, seeds spread over the tasks."""
    env = subject.make()
    pool = env.tasks.split(env.split, env.level)
    task = pool[len(pool) // 2]
    openings = {env.reset(seed=s, options={"task": task.id})[0] for s in range(5)}
    assert len(openings) == 1, "the seed changes the prompt of a given task"
    if len(pool) > 10:
        drawn = {env.reset(seed=s)[1]["task_id"] for s in range(20)}
        assert len(drawn) > 3, "seeds 0 to 19 draw three tasks or fewer"
        series = [env.reset(seed=1 if i == 0 else None)[1]["task_id"] for i in range(20)]
        assert len(set(series)) > 3, "reset() without a seed hardly changes the task"
    env.close()


def leaves_global_random_state_alone(subject: Subject) -> None:
    """`random` and `numpy.random` are the trainer's."""
    kept = random.getstate(), np.random.get_state()
    try:
        random.seed(20_250_101)  # a state that no env leaves behind
        np.random.seed(20_250_101)
        before = str((random.getstate(), np.random.get_state()))
        env = subject.make(fault_rate=FAULTS)
        episode(env, 11, 3)
        env.close()
        after = str((random.getstate(), np.random.get_state()))
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
    assert before == after, "an episode touched a global generator: use self.rng(stream)"


def interleaved_envs_do_not_disturb(subject: Subject) -> None:
    """Two envs stepped in turns say what each says alone."""
    envs = [subject.make(fault_rate=FAULTS) for _ in range(2)]
    alone = [episode(env, seed) for env, seed in zip(envs, (21, 22), strict=True)]
    players, together = [], []
    for env, seed in zip(envs, (21, 22), strict=True):
        together.append([env.reset(seed=seed)[0]])
        players.append((Player(env), random.Random(seed)))
    while not all(env.ended for env in envs):
        for (player, rng), out in zip(players, together, strict=True):
            if not player.env.ended:
                out.append(said(player.move(rng)))
    for env in envs:
        env.close()
    assert together == alone, "two envs in one process disturb each other: shared state in a class?"


def limits_hold(subject: Subject) -> None:
    """`max_turns` truncates with a grade, `max_calls` refuses calls, the end is final."""
    env = subject.make(max_turns=3, max_calls=1)
    env.reset(seed=1)
    rng = random.Random(1)
    if env.tools:
        env.act([draw_call(env, rng)])
        if not env.ended:
            result = env.act([draw_call(env, rng)])[4]["calls"][0][1]
            assert result.error == "limit", "a call over max_calls ran"
    while not env.ended:
        _, _, terminated, truncated, info = env.act(Malformed("made up"))
    failed = info["infrastructure_error"]
    assert failed is None, f"at max_turns grade(None) is called: there is no answer ({failed})"
    assert truncated and not terminated, "max_turns truncates, and does not terminate"
    assert info["end_reason"] == "max_turns", f"end_reason {info['end_reason']!r} at max_turns"
    assert info["verdict"] is not None, "an episode that ends by max_turns is graded"
    assert env.finish("late") == info["verdict"], "finish after the end gives that verdict"
    try:
        env.step("more")
    except ResetNeeded:
        env.close()
        return
    except Exception as error:
        raise AssertionError(f"a step after the end raises ResetNeeded, not {error!r}") from error
    raise AssertionError("a step after the end must raise ResetNeeded")


def vectors_agree(subject: Subject) -> None:
    """Sync and async vectors, with snapshots through `call`, give the same transcript."""
    spec = subject.make().spec
    if spec is None or not isinstance(spec.entry_point, str):
        return
    one, two = (_vector(spec, mode) for mode in ("sync", "async"))
    assert one == two, "sync and async vectors say different things"


def _vector(spec: EnvSpec, mode: str) -> list[Any]:
    vector: Any = gymnasium.make_vec(spec, num_envs=2, vectorization_mode=mode, fault_rate=FAULTS)
    try:
        out = [str(tuple(vector.reset(seed=4)[0]))]
        snapshots = vector.call("snapshot")
        for texts in (("<think>", "\u00e9|"), ("B1+1|", "an answer")):
            out.append(str(tuple(vector.step(texts)[0])))
        vector.call("rollback", snapshots)
        out.append(str(tuple(vector.step(("", "\u4e2d\n"))[0])))
        return out
    finally:
        vector.close()
