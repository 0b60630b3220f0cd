"""A bank with four accounts: what somebody else's environment looks like."""

from dataclasses import dataclass

from agent_envs import Task, TaskSource, ToolCall, ToolEnv, ToolError, Verdict, derive, register, tool

NAMES = ("ada", "bob", "cem", "dee")


@dataclass(frozen=True)
class Accounts:
    balances: tuple[tuple[str, int], ...]


class Transfers(TaskSource):
    def load(self, split):
        for i in range(40):
            source, target, amount = NAMES[i % 4], NAMES[(i + 1) % 4], 100 + derive(split, i) % 900
            prompt = f"Transfer {amount} from {source} to {target} ({split} {i}). What has {target} then?"
            yield Task(f"{split}/{i}", split, prompt, data=(source, target, amount), reads="number")


class Bank(ToolEnv):
    tasks = Transfers()
    weights = {"done": 1.0, "quick": 0.0}

    def setup(self, task):
        self.state = Accounts(tuple((n, 1000 + derive(task.id, n) % 90_000) for n in NAMES))

    @tool
    def balance(self, name: str) -> str:
        """What is in an account."""
        return str(self._get(name))

    @tool
    def transfer(self, source: str, target: str, amount: int) -> str:
        """Move a positive amount from one account to another."""
        have, rest = dict(self.state.balances), self._get(source) - amount
        if amount <= 0 or rest < 0 or self._get(target) < 0:
            raise ToolError("the amount must be positive and covered")
        have[source] = rest
        have[target] += amount
        self.state = Accounts(tuple(have.items()))
        return "done"

    def grade(self, answer):
        source, target, amount = self.task.data
        start = {n: 1000 + derive(self.task.id, n) % 90_000 for n in NAMES}
        start[source], start[target] = start[source] - amount, start[target] + amount
        ok = answer == str(start[target]) and dict(self.state.balances) == start
        return Verdict({"done": float(ok), "quick": float(self.turn <= 2)}, self.weights, ok)

    @staticmethod
    def oracle(task, messages):
        source, target, amount = task.data
        if not any(m["role"] == "tool" for m in messages):
            return [ToolCall("transfer", {"source": source, "target": target, "amount": amount})]
        return str(1000 + derive(task.id, target) % 90_000 + amount)

    def _get(self, name):
        if name not in NAMES:
            raise ToolError(f"no account {name!r}; there are {', '.join(NAMES)}")
        return dict(self.state.balances)[name]


register("mine/Bank-v0", "bank_env:Bank")
