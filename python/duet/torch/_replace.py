"""Duet's modules in the place of torch's in a model that is there."""

from __future__ import annotations

import fnmatch
from typing import Any, Mapping

from torch import nn

from .._errors import ConfigError, UnsupportedError
from .._layers import backend_text
from .modules import MODULES

_KNOWN = {**MODULES, **{duet: duet for duet in MODULES.values()}}


def replace(model: nn.Module, what: str | Mapping[Any, Any], *, math: str = "fp32",
            unsupported: str = "raise") -> nn.Module:
    """Runs modules of `model` by Duet; returns it (or what takes its place, if it is itself such a module).

    `what`: a backend for all modules that Duet has, or {which: backend}, `which` being a class of torch.nn or a name
    as named_modules() has it, in which * may stand for any part. A name goes before a class, a longer name before a
    shorter one. A backend of None leaves the choice to the device.

    >>> duet.torch.replace(model, {nn.Conv2d: "custom_winograd", "head.*": "cudnn"})

    Parameters, buffers and hooks are the same objects as before, so an optimizer made earlier goes on. A module that
    is asked for and that Duet cannot do raises UnsupportedError, and the model is as it was;
    ``unsupported="keep"`` leaves it torch's. Nothing is left out silently: what named nothing raises ConfigError.
    """
    if unsupported not in ("raise", "keep"):
        raise ConfigError(f"unsupported='{unsupported}': expected raise or keep")
    rules: Mapping[Any, Any] = what if isinstance(what, Mapping) else {cls: what for cls in MODULES}
    _check(rules)
    used: set[Any] = set()
    made: dict[int, nn.Module] = {}  # by the old one: a module in two places stays one
    reasons = []
    for name, module in model.named_modules():
        rule = _rule_for(name, module, rules)
        if rule is None:
            continue
        used.add(rule)
        if type(module) not in _KNOWN:
            if rule == name:
                raise UnsupportedError(f"{name} is a {type(module).__name__}, for which Duet has no module; it has: "
                                       + ", ".join(sorted(cls.__name__ for cls in MODULES)))
            continue
        try:
            made[id(module)] = _twin(module, rules[rule], math)
        except UnsupportedError as error:
            reasons.append(f"{name}: {error}")
    if not isinstance(what, str) and len(used) < len(rules):
        missing = ", ".join(_text(rule) for rule in rules if rule not in used)
        raise ConfigError(f"the model has no module of {missing}")
    if reasons and unsupported == "raise":
        raise UnsupportedError("; ".join(reasons) + "; unsupported='keep' leaves these as they are")
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if id(child) in made:
                parent._modules[name] = made[id(child)]
    return made.get(id(model), model)


def _check(rules: Mapping[Any, Any]) -> None:
    for rule, backend in rules.items():
        if not isinstance(rule, str) and rule not in _KNOWN:
            known = ", ".join(sorted(cls.__name__ for cls in MODULES))
            raise ConfigError(f"{_text(rule)}: expected the name of a module, or one of torch.nn's {known}")
        backend_text(backend)


def _text(rule: Any) -> str:
    return f"'{rule}'" if isinstance(rule, str) else getattr(rule, "__name__", str(rule))


def _rule_for(name: str, module: nn.Module, rules: Mapping[Any, Any]) -> Any:
    names = [rule for rule in rules if isinstance(rule, str) and fnmatch.fnmatchcase(name, rule)]
    if names:
        return max(names, key=len)
    for rule in rules:
        if not isinstance(rule, str) and _KNOWN.get(type(module)) is _KNOWN[rule]:
            return rule
    return None


def _twin(module: nn.Module, backend: Any, math: str) -> nn.Module:
    cls = _KNOWN[type(module)]
    twin = cls.__new__(cls)
    twin.__dict__.update(module.__dict__)
    # Containers are the twin's own; what is in them is shared.
    for name, value in module.__dict__.items():
        if name.startswith("_") and isinstance(value, dict):
            twin.__dict__[name] = value.copy()
    twin.set_backend(backend, math)
    return twin
