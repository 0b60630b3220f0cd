"""One small module for each framework that drives our envs; none is imported by the package.

Each needs its framework, at the version that its docstring names, and says how to use it.
"""
