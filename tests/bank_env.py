"""Four bank accounts: an environment as somebody else would write it."""

from dataclasses import dataclass

from agent_envs import (
    Task,
    TaskSource,
    ToolCall,
    ToolEnv,
    ToolError,
    Verdict,
    derive,
    register,
    tool,
)

NAMES = ("ada", "bob", "cem", "dee")


def opening(task_id):
    return {name: 1000 + derive(task_id, name) % 90_000 for name in NAMES}


class Transfers(TaskSource):
    def load(self, split):
        for i in range(40):
            source, target, amount = NAMES[i % 4], NAMES[(i + 1) % 4], 100 + derive(split, i) % 900
            prompt = (
                f"Order {split}-{i}: {amount} from {source} to {target}. What has {target} then?"
            )
            yield Task(f"{split}/{i}", split, prompt, (source, target, amount), reads="number")


@dataclass(frozen=True)
class Accounts:
    balances: tuple[tuple[str, int], ...]


class Bank(ToolEnv):
    tasks = Transfers()
    weights = {"done": 1.0, "quick": 0.0}

    def setup(self, task):
        self.state = Accounts(tuple(opening(task.id).items()))

    @tool
    def balance(self, name: str) -> str:
        """What is in an account."""
        return str(self.account(name))

    @tool
    def transfer(self, source: str, target: str, amount: int) -> str:
        """Move a positive amount from one account to another."""
        if not 0 < amount <= self.account(source) or target not in NAMES:
            raise ToolError("the amount must be positive and covered, the target a known account")
        balances = dict(self.state.balances)
        balances[source] -= amount
        balances[target] += amount
        self.state = Accounts(tuple(balances.items()))
        return "done"

    def account(self, name):
        if name not in NAMES:
            raise ToolError(f"no account {name!r}; there are {', '.join(NAMES)}")
        return dict(self.state.balances)[name]

    def grade(self, answer):
        source, target, amount = self.task.data
        wanted = opening(self.task.id)
        wanted[source] -= amount
        wanted[target] += amount
        done = dict(self.state.balances) == wanted and answer == str(wanted[target])
        return Verdict({"done": float(done), "quick": float(self.turn <= 2)}, self.weights, done)

    @staticmethod
    def oracle(task, messages):
        source, target, amount = task.data
        if messages[-1]["role"] == "tool":
            return str(opening(task.id)[target] + amount)
        return [ToolCall("transfer", {"source": source, "target": target, "amount": amount})]


register("mine/Bank-v0", "bank_env:Bank")
