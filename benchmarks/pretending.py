"""The host taken for a device beside it, where there is none."""

import sys

from dynetjax.engine import device


def pretend(**answers):
    """Have functions of `dynetjax.engine.device` give these, whoever imported them."""
    known = {name: getattr(device, name) for name in answers}
    for module in [m for n, m in sys.modules.items() if n.startswith("dynetjax")]:
        for name, answer in answers.items():
            if vars(module).get(name) is known[name]:
                setattr(module, name, lambda answer=answer: answer)
