"""The procedural problems: each maker is a function of dice."""
