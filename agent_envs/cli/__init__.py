"""The command line `agent-envs`: one small file a command.

Every command takes `--json`, which puts exactly one JSON object on standard output. Whatever else
is said goes to standard error. Exit codes: 0 fine, 1 what was asked for failed, 2 bad usage,
130 stopped by Ctrl-C, 141 nobody reads the output any more.
"""

import argparse
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from types import ModuleType
from typing import NoReturn

from agent_envs import __version__
from agent_envs.cli import bench, demo, doctor, evaluate, listing, play, train
from agent_envs.cli.common import Failed, Usage, one_line, print_json
from agent_envs.errors import BackendUnavailable, near

_ABOUT = "Environments for language-model agents that use tools: play, evaluate, measure, train."

_COMMANDS: dict[str, ModuleType] = {
    "list": listing,
    "doctor": doctor,
    "play": play,
    "eval": evaluate,
    "bench": bench,
    "train": train,
    "demo": demo,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, `sys.argv`'s if none is given; returns the exit code and raises nothing."""
    _open_what_is_closed()
    _never_fail_to_encode()
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _let_go_of_stdout()
        return 141
    except OSError as error:  # a full disk
        _let_go_of_stdout()
        return _complain(f"standard output: {error}", (), 1)


def _run(argv: Sequence[str]) -> int:
    try:
        with _warnings_on_stderr():
            arguments, unknown = _parser().parse_known_args(argv)
            if unknown:
                raise Usage(_unknown(unknown, arguments.parser))
            code: int = arguments.run(arguments)
            return code
    except SystemExit as asked:  # argparse has printed the help or the version
        return int(asked.code or 0)
    except Usage as error:
        return _complain(error, argv, 2)
    except (Failed, BackendUnavailable) as error:
        return _complain(error, argv, 1)
    except KeyboardInterrupt:
        return _complain("stopped", argv, 130)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _complain(error, argv, 1)
    except Exception as error:  # a bug, of an environment perhaps: its author needs the traceback
        traceback.print_exc()
        return _complain(f"a bug: {type(error).__name__}: {error}", argv, 1)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message}; {self.prog} --help tells what there is")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Tells what an option is where it is not given."""

    def _get_help_string(self, action: argparse.Action) -> str:
        told, default = action.help or "", action.default
        is_told = default is argparse.SUPPRESS or not isinstance(default, str | int | float)
        return told if is_told or isinstance(default, bool) else f"{told} (default: %(default)s)"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="agent-envs", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"agent-envs {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in _COMMANDS.items():
        about = _first_line(module.__doc__)
        sub = commands.add_parser(name, help=about, description=module.__doc__, allow_abbrev=False)
        sub.formatter_class = _Help
        module.add_arguments(sub)
        sub.add_argument("--json", action="store_true", help="one JSON object on standard output")
        sub.set_defaults(run=module.run, parser=sub)
    return parser


def _unknown(words: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """What is wrong with arguments that a command does not take."""
    known = re.findall(r"--[a-z-]+", parser.format_usage())
    word = words[0].partition("=")[0]
    hint = near(word, known) if word.startswith("-") else ""
    listed = " ".join(words)
    return f"unrecognized arguments: {listed}{hint}; {parser.prog} --help tells what there is"


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _complain(error: object, argv: Sequence[str], code: int) -> int:
    """One line on standard error; under `--json` the same as an object, so that there is one."""
    message = one_line(str(error))
    print(f"agent-envs: {message}", file=sys.stderr)
    if "--json" in argv:
        print_json({"error": message})
    return code


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Warnings as one line each, without Python's source line and Gymnasium's colours."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = _warn  # type: ignore[assignment]
        yield


def _warn(message: Warning | str, *_: object) -> None:
    text = re.sub("\033\\[[0-9;]*m", "", str(message))
    print(f"agent-envs: warning: {one_line(text)}", file=sys.stderr)


def _open_what_is_closed() -> None:
    """A stream that the caller has closed is None in Python: nothing comes in, or goes nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def _never_fail_to_encode() -> None:
    """A terminal in another encoding than UTF-8 shows escapes instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _let_go_of_stdout() -> None:
    """Keep the interpreter from complaining at exit about output that nobody reads."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)
