"""The conformance kit: it passes what is sound and catches planted faults, each by its name."""

import importlib
import logging
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

import agent_envs
from agent_envs import Task, ToolEnv
from agent_envs.branching import Branching
from agent_envs.episode import Episode
from agent_envs.fault import FaultModel
from agent_envs.testing import check_tool_env, leaks
from agent_envs.testing.check import CHECKS, run_check
from agent_envs.testing.play import Subject, draw_move

# Python 3.12 and later warn of any fork in a process with threads, and numpy may have some.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

BANK = "bank_env:mine/Bank-v0"
OURS = [env_id for env_id in agent_envs.ids() if env_id.startswith("agent/")]
LEDGER = "planted_envs:planted/Ledger-v0"
BY_NAME = {check.__name__: check for check in CHECKS}


@pytest.mark.parametrize("env_id", [*OURS, BANK, LEDGER])
def test_what_is_sound_passes(env_id: str) -> None:
    before = random.getstate(), str(np.random.get_state())
    check_tool_env(env_id, depth=110, tasks=None if env_id == BANK else 40)
    assert (random.getstate(), str(np.random.get_state())) == before


def test_a_class_passes_too() -> None:
    make: Any = type(gymnasium.make(LEDGER).unwrapped)
    check_tool_env(make, examples=5, depth=10, tasks=5)


DETOUR = ("rollback_undoes_a_detour", r"law 1 \(exact\).*save\(\) must copy, and load\(\) bring")
SEED = ("same_seed_same_bytes", r"same seed gave another episode: draw from self\.rng\(stream\)")
AGAIN = ("same_seed_same_bytes", r"something survives reset; setup\(\) must set everything")
GLOBAL = ("leaves_global_random_state_alone", r"global generator: use self\.rng\(stream\)")
PROCESS = ("same_bytes_in_another_process", r"hash\(\), id\(\), a process id")
SHARED = ("interleaved_envs_do_not_disturb", "shared state in a class")
FORM = "info_has_its_form"
ORACLE = "oracle_passes_every_task"
NOBODY = "nobody_else_passes"
TASKS = "tasks_are_sound"
LEFT = "nothing_leaks"

PLANTED: dict[str, tuple[str, str]] = {
    # the state
    "LoadsNothing": DETOUR,
    "SaveForgets": DETOUR,
    "SavesTheLiveState": DETOUR,
    "FrozenInNameOnly": DETOUR,
    "RollbackCounts": DETOUR,
    "LoadUsesUp": (DETOUR[0], r"it raised SnapshotUnsupported\('used up'\)"),
    "NeverCaptured": (DETOUR[0], r"it raised SnapshotUnsupported\('a live thread'\)"),
    "SurvivesReset": AGAIN,
    "GraderChangesState": AGAIN,
    "ChangesTheTask": ("tasks_stay_as_they_are", r"changed the data of a task.*copy in setup\(\)"),
    # randomness
    "SharedStream": SEED,
    "WallClock": SEED,
    "SharedFaults": SHARED,
    "SharedState": SHARED,
    "GlobalRandom": GLOBAL,
    "GlobalNumpy": GLOBAL,
    "FaultDraws": GLOBAL,
    "Hash": PROCESS,
    "Pid": PROCESS,
    "SetupDraws": ("start_law", r"law 4.*setup\(\) must not draw"),
    # what is said
    "SharedInfo": ("info_is_the_callers", "info shares objects between steps"),
    "OutsideTheSpace": (FORM, r"not in the space: .*\\x00"),
    "NumpyReward": (FORM, "the reward is a float32, not a float"),
    "BothFlags": (FORM, "terminated and truncated are both true"),
    "ExtraKey": (FORM, "info has .*'success'"),
    "NoJson": (FORM, "no JSON form for a lock"),
    "SaysOtherwise": (FORM, "a message says what the observation does not"),
    "UnexplainedReward": (FORM, "do not sum to"),
    "Raises": (FORM, r"it raised LookupError\('no pen'\)"),
    "OtherWeights": (FORM, r"grade\(\) weighs by .* give the verdict self\.weights"),
    "StepsAfterTheEnd": ("limits_hold", "a step after the end must raise ResetNeeded"),
    "RaisesAfterTheEnd": ("limits_hold", r"raises ResetNeeded, not ValueError\('it is over'\)"),
    # faults
    "FaultTells": ("faults_keep_the_form", r"has \['\(', '\)'\].*told by its form"),
    "FaultGivesAway": ("faults_keep_the_form", "gives the right one away"),
    "FaultIsNoText": ("faults_keep_the_form", r"corrupt\(\) or a tool broke an episode"),
    # tasks and rewards
    "DuplicatePrompts": (TASKS, "'train/0' and 'heldout/0' have the same prompt"),
    "UnsteadyTasks": (TASKS, r"load\('train'\) gives other tasks each time"),
    "MisplacedTask": (TASKS, r"heldout/0.*a task of another split"),
    "TaskHasNoJson": (TASKS, "data needs a plain JSON form"),
    "TasksPerProcess": (PROCESS[0], r"another process has other tasks: load\(\)"),
    "Guessable": (ORACLE, "'7' can be guessed: it passes 10 of the 10 tasks of level 0 in train"),
    "WrongOracle": (ORACLE, "the oracle fails 1 tasks of train, first train/4"),
    "RaisingOracle": (ORACLE, r"LookupError\('no gold'\)"),
    "UnpaidOracle": (ORACLE, "the oracle passes and earns nothing: see weights"),
    "PaidCheat": (NOBODY, "the say paid policy is paid in train: train/0"),
    "RaisingCheat": (NOBODY, "the broken policy broke an episode.*IndexError"),
    "PaysForNothing": (NOBODY, "the null policy is paid in train"),
    "Substring": ("hedged_answers_fail", "' passes: compare the whole answer with the gold one"),
    "NoneBreaksTheGrader": ("limits_hold", r"grade\(None\) is called: there is no answer"),
    "OddAnswerBreaksTheGrader": ("survives_hostile_texts", r"'²' broke the episode.*grade\(\)"),
    "OddArgument": ("survives_hostile_arguments", r"note\(.*met a bug.*raise ToolError.*KeyError"),
    "OddText": ("survives_hostile_arguments", r"note\(.*met a bug.*embedded null"),
    # arguments
    "ArgumentHasNoJson": ("spec_survives_json_and_pickle", "every argument needs a JSON form"),
    "TakesNoArguments": ("takes_the_arguments_of_make", r"give __init__ a \*\*kwargs and pass it"),
    "IgnoresArguments": ("takes_the_arguments_of_make", r"__init__ must pass its \*\*kwargs on"),
    # what is left behind
    "LeaksDescriptors": (LEFT, r"'descriptors': .*teardown\(\) frees"),
    "LeaksOnReset": (LEFT, "'descriptors'"),
    "LeaksStates": (LEFT, r"'descriptors': .*drop\(\) a saved one"),
    "LeaksThreads": (LEFT, "'threads'"),
    "LeaksChildren": (LEFT, "'children'"),
    "LeaksFiles": (LEFT, "'temporary files'"),
    "ClosesOnce": ("takes_the_arguments_of_make", r"it raised ValueError\('closed already'\)"),
}


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    """Nothing is left behind by those who leave something behind."""
    yield
    left = importlib.import_module("planted_envs").LEFT
    while left:
        thing = left.pop()
        if isinstance(thing, int):
            os.kill(thing, 9)
            os.waitpid(thing, 0)
        elif not isinstance(thing, str):  # a temporary file's folder is gone already
            end: Any = getattr(thing, "close", None) or thing.set
            end()


def planted(name: str) -> Subject:
    return Subject.of(f"planted_envs:planted/{name}-v0", 10, 20, 10)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "PATIENCE", 0.2)
    check, message = PLANTED[name]
    with pytest.raises(
        AssertionError, match=f"(?s){name}-v0: {check.replace('_', ' ')}: .*{message}"
    ):
        run_check(BY_NAME[check], planted(name))


def test_no_planted_fault_is_forgotten() -> None:
    envs = importlib.import_module("planted_envs").ENVS
    assert {env.__name__ for env in envs} == {*PLANTED, "Ledger"}
    assert {check for check, _ in PLANTED.values()} | {check for check, _ in BASE.values()} | {
        "vectors_agree",
        "passes_gymnasiums_own_check",
        "seed_moves_only_noise",
    } == set(BY_NAME), "every check has caught something, here or below"


@pytest.mark.parametrize("name", ["SharedInfo", "Guessable", "OddText"])
def test_the_whole_kit_stops_at_the_fault(name: str) -> None:
    check, message = PLANTED[name]
    with pytest.raises(
        AssertionError, match=f"(?s){check.replace('_', ' ')}: .*{message}"
    ) as caught:
        check_tool_env(f"planted_envs:planted/{name}-v0", examples=5, depth=10, tasks=10)
    assert caught.value.__cause__ is not None, "with the place where it was found"


# -- faults of the base class ----------------------------------------------------------------------


def copy_forgets(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    copy = Episode.copy

    def forgetful(self: Episode) -> Episode:
        twin = copy(self)
        twin.last = {}
        return twin

    patch.setattr(Episode, "copy", forgetful)


def no_copy(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Episode, "copy", lambda self: self)


def reseed_not_logged(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    reseed = Branching._reseed

    def secret(self: Branching, seed: int) -> None:
        log = self._need().log
        reseed(self, seed)
        self._need().log = log

    patch.setattr(Branching, "_reseed", secret)


def np_random_goes_on(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    def take(self: Branching, kept: Episode, saved: Any, rng: Any) -> None:
        generator = self._generator, self._origin
        original(self, kept, saved, rng)
        self._generator, self._origin = generator

    original = Branching._take
    patch.setattr(Branching, "_take", take)


def faults_go_on(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    stream = random.Random(1)

    def pick(self: FaultModel, seed: int, index: int) -> Any:
        return stream.choice([None, *self.rates])

    patch.setattr(FaultModel, "pick", pick)


def digests_are_not_compared(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    patch.setattr("agent_envs.history.compare", lambda *args: None)


def parents_are_lost(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    snapshot = Branching.snapshot

    def orphan(self: Branching, **kwargs: Any) -> Any:
        self._need().snapshot = None
        return snapshot(self, **kwargs)

    patch.setattr(Branching, "snapshot", orphan)


def handles_are_taken_from_anybody(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Branching, "_mine", lambda self, given: given if hasattr(given, "id") else given[0]
    )


def forks_share(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    """A fork whose parent takes it along."""
    fork, close = Branching.fork, ToolEnv.close
    children: list[Any] = []

    def shared(self: Any, *args: Any, **kwargs: Any) -> Any:
        children.append(fork(self, *args, **kwargs))
        return children[-1]

    def close_all(self: Any) -> None:
        close(self)
        if self not in children:
            for child in children:
                close(child)

    patch.setattr(ToolEnv, "fork", shared)
    patch.setattr(ToolEnv, "close", close_all)


def tasks_of_the_seed(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    choose = ToolEnv._choose
    patch.setattr(ToolEnv, "_choose", lambda self, seed, options: choose(self, 7, options))


def a_space_without_text(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    init = ToolEnv.__init__

    def odd(self: Any, **kwargs: Any) -> None:
        init(self, **kwargs)
        self.observation_space = gymnasium.spaces.Discrete(3)

    patch.setattr(ToolEnv, "__init__", odd)


def another_in_a_worker(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    setup, here = env.setup, os.getpid()

    def elsewhere(self: Any, task: Task) -> None:
        if os.getpid() != here:
            task = self.tasks.split("train")[0]
            self._opening = lambda task: ("elsewhere", [])
        setup(self, task)

    patch.setattr(env, "setup", elsewhere)


BASE: dict[Callable[..., None], tuple[str, str]] = {
    copy_forgets: DETOUR,
    no_copy: DETOUR,
    reseed_not_logged: ("random_walks_keep_the_laws", "a reseed that is not logged"),
    np_random_goes_on: ("random_walks_keep_the_laws", r"law 1 \(exact\)"),
    faults_go_on: SEED,
    digests_are_not_compared: ("histories_travel", "replay took a digest that differs"),
    parents_are_lost: ("deep_lineage", "law 2: parents"),
    handles_are_taken_from_anybody: ("handles_travel", "law 7"),
    forks_share: ("forks_outlive_their_parent", "closed"),
    tasks_of_the_seed: ("seed_moves_only_noise", "draw three tasks or fewer"),
    a_space_without_text: ("passes_gymnasiums_own_check", ""),
    another_in_a_worker: ("vectors_agree", "sync and async vectors say different things"),
}


@pytest.mark.parametrize("fault", BASE, ids=lambda fault: fault.__name__)
def test_a_fault_of_the_base_class_is_caught(
    fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = planted("Ledger")
    check, message = BASE[fault]
    run_check(BY_NAME[check], subject)
    fault(type(subject.make()), monkeypatch)
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        run_check(BY_NAME[check], subject)


def test_a_tool_whose_arguments_are_hard_to_guess_is_moved_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Random names are no accounts of the bank: only its gold moves change the state."""
    subject = Subject.of(BANK, 10, 20, 10)
    run_check(BY_NAME[DETOUR[0]], subject)
    monkeypatch.setattr(type(subject.make()), "load", lambda self, saved: None)
    with pytest.raises(AssertionError, match=DETOUR[1]):
        run_check(BY_NAME[DETOUR[0]], subject)


def test_bugs_are_found_where_logging_is_off() -> None:
    logger = logging.getLogger("agent_envs")
    before = logger.level, logger.propagate, list(logger.handlers)
    logging.disable(logging.CRITICAL)
    try:
        with pytest.raises(AssertionError, match="met a bug"):
            run_check(BY_NAME["survives_hostile_arguments"], planted("OddText"))
        assert logging.root.manager.disable == logging.CRITICAL
    finally:
        logging.disable(logging.NOTSET)
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def test_moves_are_of_every_kind() -> None:
    env = gymnasium.make(LEDGER).unwrapped
    assert isinstance(env, ToolEnv)
    info = env.reset(seed=1)[1]
    rng, kinds = random.Random(1), set()
    for _ in range(300):
        move = draw_move(env, rng, info["messages"])
        kinds.add(move[0].name if isinstance(move, list) else type(move).__name__)
    assert kinds == {"repay", "note", "no_such_tool", "Malformed", "str"}
