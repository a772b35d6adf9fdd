"""Metrics of the tasks ``grades`` and ``votes``: each judge of the panel is one."""


def grades(doc, results):
    return dict(zip(("strict", "kind", "brief"), doc["scores"], strict=True))


def votes(doc, results):
    return dict(zip(("one", "two", "three"), doc["scores"], strict=True))
