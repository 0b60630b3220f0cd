"""The pages of MiniWoB++ as tasks: `make("agent/Browser-v0", tasks="miniwob")`."""
