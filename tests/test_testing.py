"""The conformance kit: it passes what is sound and catches planted faults, each by its name."""

import importlib
import logging
import os
import random
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from agent_envs import Task, ToolEnv, ToolResult, Verdict
from agent_envs.branching import Branching
from agent_envs.episode import Episode
from agent_envs.fault import FaultModel
from agent_envs.testing import check_tool_env, leaks
from agent_envs.testing.check import CHECKS, run_check
from agent_envs.testing.play import Subject, draw_move

# Python 3.12 and later warn of any fork in a process with threads, and numpy may have some.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

BANK = "bank_env:mine/Bank-v0"
OURS = ["agent/Calculator-v0", "agent/CalculatorChars-v0"]
"""Those whose steps take microseconds; the tests of the others call the kit themselves."""
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
SHARES = "info shares objects between steps"
WALKS = "random_walks_keep_the_laws"
FAULTS = "faults_keep_the_form"
SILENCE = "silence_earns_nothing"
INCOME = "calls_are_no_income"
HEDGE = "hedged_answers_fail"
DISJOINT = "splits_are_disjoint"

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
    "Unseeded": GLOBAL,
    "Counter": ("same_seed_same_bytes", r"\['Counter\.written'\] of the class changed"),
    "DrawsFromNpRandom": ("histories_travel", r"Does a tool draw from np_random.*self\.rng"),
    "Today": (PROCESS[0], "the date, .*First .*written on"),
    "ThisYear": (PROCESS[0], "the date, .*First .*written in"),
    "User": (PROCESS[0], "the user, .*First .*written by"),
    "HostVariable": (PROCESS[0], "an environment variable.*First .*written on"),
    "Host": (PROCESS[0], "the host, .*First .*written on"),
    "Folder": (PROCESS[0], "a path .*First .*written in"),
    "SetupDraws": ("start_law", r"law 4.*setup\(\) must not draw"),
    # what is said
    "SharedInfo": ("info_is_the_callers", SHARES),
    "OutsideTheSpace": (FORM, r"not in the space: .*\\x00"),
    "NumpyReward": (FORM, "the reward is a float32, not a float"),
    "BothFlags": (FORM, "terminated and truncated are both true"),
    "ExtraKey": (FORM, "info has .*'success'"),
    "NoJson": (FORM, "no JSON form for a lock"),
    "SaysOtherwise": (FORM, "a message says what the observation does not"),
    "UnexplainedReward": (FORM, "do not sum to"),
    "Raises": (FORM, r"it raised LookupError\('no pen'\)"),
    "HugeError": (FORM, r"it raised KeyError\('xxx"),
    "Exits": ("tools_meet_no_bugs", r"the tool note failed; raise ToolError.*SystemExit\(3\)"),
    "GraderExits": (FORM, r"it raised SystemExit\(3\)"),
    "NoState": (FORM, r"setup\(\) never sets self\.state"),
    "NoVerdict": (FORM, r"grade\(\) returns None: it must return a Verdict"),
    "OtherWeights": (FORM, r"grade\(\) weighs by .* give the verdict self\.weights"),
    "StepsAfterTheEnd": ("limits_hold", "a step after the end must raise ResetNeeded"),
    "RaisesAfterTheEnd": ("limits_hold", r"raises ResetNeeded, not ValueError\('it is over'\)"),
    # faults
    "FaultTells": (FAULTS, r"has \['\(', '\)'\].*told by its form"),
    "FaultGivesAway": (FAULTS, "gives the right one away"),
    "FaultPads": (FAULTS, "gives the right one away: '0"),
    "FaultGrows": (FAULTS, "gives the right one away: '7"),
    "FaultDropsCommas": (FAULTS, "every sound result of repay has ',', and most wrong ones have"),
    "FaultEmpties": (FAULTS, "a truncated result of .* is empty.*keep a part of"),
    "FaultIsNoText": (FAULTS, r"corrupt\(\) or a tool broke an episode"),
    # tasks and rewards
    "DuplicatePrompts": (TASKS, "'train/0' and 'heldout/0' have the same prompt"),
    "UnsteadyTasks": (TASKS, r"load\('train'\) gives other tasks each time"),
    "MisplacedTask": (TASKS, r"heldout/0.*a task of another split"),
    "TaskHasNoJson": (TASKS, "data needs a plain JSON form"),
    "TasksPerProcess": (PROCESS[0], r"another process has other tasks: load\(\)"),
    "Guessable": (ORACLE, "'7' can be guessed: it passes 10 of the 10 tasks of level 0 in train"),
    "WrongOracle": (ORACLE, "the oracle fails 1 tasks of train, first train/4"),
    "RaisingOracle": (ORACLE, r"LookupError\('no gold'\)"),
    "UnpaidOracle": (ORACLE, "the oracle is paid 0 in all; a solved task is worth 1.*see weights"),
    "DearOracle": (ORACLE, "the oracle is paid 2 in all; a solved task is worth 1"),
    "MissingComponent": (ORACLE, r"components \['answer'\] of \['answer', 'entries'\]: give all"),
    "OracleWithSelf": ("ships_an_oracle", r"oracle\(\) needs @staticmethod above it"),
    "NoOracle": ("ships_an_oracle", "it ships no oracle: write `@staticmethod def oracle"),
    "SilencePasses": (SILENCE, r"ends at once without an answer earns 1 .*grade\(\) gets None"),
    "BlankPasses": (SILENCE, "answers with a blank earns 1"),
    "PatiencePays": (SILENCE, r"makes malformed turns to max_turns earns 0\.5"),
    "PayFarm": (INCOME, r"calling note\(.*\) to the limit earns 3\.2 .*twice, see pay\(\)"),
    "SmallFarm": (INCOME, r"calling note\(.*again and again before solving .* earns 1\.004, more"),
    "PaysAccidents": (NOBODY, "the random policy is paid"),
    "PaidHedge": (HEDGE, "' passes, or is paid more than a wrong one"),
    "GoldInPrompt": ("prompts_do_not_tell", "in 10 of 10 tasks of train.*Leave it out"),
    "GoldInError": ("error_texts_do_not_tell", r"the error 'error: wrong amount.*of repay\(\)"),
    "SpacedPrompts": (DISJOINT, "'train/0' of train and 'heldout/0' of heldout are one task"),
    "SameData": (DISJOINT, "30 of the 30 tasks of heldout have the data of a task of train"),
    "OnlyTrain": (TASKS, r"load\('heldout'\) of Training gives no task.*splits = \(.train.,\)"),
    "PaidCheat": (NOBODY, "the say paid policy is paid 1 in train: train/0"),
    "RaisingCheat": (NOBODY, "the broken policy broke an episode.*IndexError"),
    "PaysForNothing": (NOBODY, r"the null policy is paid 0\.1 in train"),
    "Substring": (HEDGE, "' passes, or is paid.*compare the whole answer with the gold one"),
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
    "LeaksMemory": (
        "memory_does_not_grow",
        r"bytes of memory stay behind after each life.*planted_envs\.py",
    ),
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


@pytest.mark.parametrize("name", ["Guessable", "OddText", "Unseeded", "WallClock", "Counter"])
def test_the_whole_kit_stops_at_the_fault(name: str) -> None:
    check, message = PLANTED[name]
    with pytest.raises(
        AssertionError, match=f"(?s){check.replace('_', ' ')}: .*{message}"
    ) as caught:
        check_tool_env(f"planted_envs:planted/{name}-v0", examples=5, depth=10, tasks=10)
    assert caught.value.__cause__ is not None, "with the place where it was found"


def test_an_error_of_megabytes_is_cut() -> None:
    with pytest.raises(AssertionError) as caught:
        run_check(BY_NAME[FORM], planted("HugeError"))
    assert len("".join(traceback.format_exception(caught.value))) < 20_000


def test_without_assertions_nothing_is_checked_and_it_says_so() -> None:
    script = "from agent_envs.testing import check_tool_env; check_tool_env('agent/Calculator-v0')"
    ran = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True)
    assert ran.returncode and "RuntimeError: python -O leaves assertions out" in ran.stderr


def test_what_is_no_id_and_no_class() -> None:
    with pytest.raises(
        ValueError, match=r"Import the module that registers it.*'module:mine/No-v0"
    ):
        check_tool_env("mine/No-v0")
    with pytest.raises(ValueError, match="No module named 'no_such_module'.*Import the module"):
        check_tool_env("no_such_module:mine/No-v0")
    others: list[Any] = [gymnasium.make(LEDGER).unwrapped, 7]
    for given in others:
        with pytest.raises(TypeError, match="give the kit an id or a class"):
            check_tool_env(given)


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


def results_are_shared(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ToolResult, "copy", lambda self: self)


def calls_are_shared(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    patch.setattr("agent_envs.episode.copied", lambda call: call)


def verdicts_are_shared(env: type[Any], patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Verdict, "copy", lambda self: self)


BASE: dict[Callable[..., None], tuple[str, str]] = {
    copy_forgets: DETOUR,
    no_copy: DETOUR,
    reseed_not_logged: (WALKS, "laws? 1 "),
    np_random_goes_on: (WALKS, r"law 1 \(exact\)"),
    faults_go_on: SEED,
    digests_are_not_compared: ("histories_travel", "replay took a digest that differs"),
    parents_are_lost: ("deep_lineage", "law 2: parents"),
    handles_are_taken_from_anybody: ("handles_travel", "law 7"),
    forks_share: ("forks_outlive_their_parent", "closed"),
    tasks_of_the_seed: ("seed_moves_only_noise", "draw three tasks or fewer"),
    a_space_without_text: ("passes_gymnasiums_own_check", ""),
    results_are_shared: ("info_is_the_callers", SHARES),
    calls_are_shared: ("info_is_the_callers", SHARES),
    verdicts_are_shared: ("info_is_the_callers", SHARES),
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
