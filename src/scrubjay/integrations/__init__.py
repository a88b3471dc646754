"""EDGE: a memory as other frameworks' parts, each in a module that needs its framework only when it is imported."""
