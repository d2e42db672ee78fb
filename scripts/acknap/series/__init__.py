"""Our patches: load, apply, rebuild, export, check, and the rules of their messages."""
