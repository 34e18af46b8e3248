"""What a training step must come to, and what is missed."""

RATIOS = {  # how many times as long as by hand, at most; by target and task
    "h100": {
        "lm64-256": 1.15,
        "lm64-1024": 1.1,
        "seq2seq64": 1.3,
        "seq2seq64-apart": 1.05,
        "tagger64": 1.4,
        "tagger50-apart": 1.3,
    },
    "v5e": {
        "lm64-256": 1.5,
        "lm64-1024": 1.5,
        "seq2seq64-apart": 1.6,
        "tagger64": 3.0,
        "tagger50-apart": 3.0,
    },
}
MILLISECONDS = {"h100": {"trees256-128": 3.3}}  # at most
LOOPED = {"h100": 64}  # MB that copies within the loops of any step write, at most


def must(target, task):
    """What a task must come to, in words; "" for nothing."""
    if task in RATIOS.get(target, {}):
        return f"{RATIOS[target][task]:.2f}"
    if task in MILLISECONDS.get(target, {}):
        return f"{MILLISECONDS[target][task]:.1f} ms"
    return ""


def missed(target, task, ours, hand):
    """What a task misses, a sentence each.

    Args:
        ours, hand: `us`, and of ours `looped`; None where there is no such step.
    """
    if ours is None:
        return
    most = RATIOS.get(target, {}).get(task)
    if most and hand and ours["us"] > most * hand["us"]:
        ratio = ours["us"] / hand["us"]
        yield f"{ratio:.2f} times as long as by hand, not {most}"
    most = MILLISECONDS.get(target, {}).get(task)
    if most and ours["us"] > 1e3 * most:
        yield f"{ours['us'] / 1e3:.1f} ms, not {most}"
    most = LOOPED.get(target)
    if most and ours["looped"] > most * 2**20:
        yield f"{ours['looped'] / 2**20:.0f} MB are copied in loops, not {most}"
