"""Recipe: what a lowering is told to do. A value: immutable, hashable, saved as JSON."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lowerscope.errors import RecipeError, unknown
from lowerscope.pattern import REGISTRY


@dataclass(frozen=True, order=True)
class Skip:
    """What to leave alone. Of the fields that are set, all must hold.

    pattern: the name of a pattern; alone it skips the whole pattern.
    node: the id of a node of the original program; what it became counts too.
    module: a glob over module paths (`decoder.*`); a path's own children count too.
    op: an op's display name (`aten.relu`), without the overload or with it.
    match: sorted ids of the original nodes that one match covers (needs `pattern`).
    """

    pattern: str | None = None
    node: str | None = None
    module: str | None = None
    op: str | None = None
    match: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not any((self.pattern, self.node, self.module, self.op, self.match)):
            raise RecipeError("a skip names a pattern, a node, a module glob or an op: give one of them")
        if self.match is not None:
            object.__setattr__(self, "match", tuple(sorted(self.match)))
            if self.pattern is None:
                raise RecipeError("a skip of one match names its pattern too: give pattern=")

    @property
    def whole_pattern(self) -> bool:
        """Whether it skips a pattern altogether."""
        return self.pattern is not None and not (self.node or self.module or self.op or self.match)

    @property
    def kind(self) -> str:
        """pattern, match, node, module or op."""
        if self.match is not None:
            return "match"
        return next((k for k in ("node", "module", "op") if getattr(self, k)), "pattern")

    @property
    def value(self) -> str:
        """What it names, as text."""
        return " + ".join(self.match) if self.match is not None else str(getattr(self, self.kind))

    def __str__(self) -> str:
        where = f"{self.kind} {self.value}"
        return where if self.pattern is None or self.kind == "pattern" else f"{where} for {self.pattern}"

    def covers_module(self, path: str) -> bool:
        """Whether the module path lies under this skip's glob."""
        glob = self.module or ""
        stem = glob[:-2] if glob.endswith(".*") else glob
        return fnmatch.fnmatchcase(path, glob) or fnmatch.fnmatchcase(path, f"{stem}.*")

    def covers_op(self, name: str) -> bool:
        """Whether the op (display name, with or without its overload) is the one that this skip names."""
        wanted = self.op or ""
        return name == wanted or name.startswith(wanted + ".") or name.removeprefix("aten.") == wanted

    def as_dict(self) -> dict[str, Any]:
        """JSON form: only what is set."""
        out: dict[str, Any] = {k: getattr(self, k) for k in ("pattern", "node", "module", "op") if getattr(self, k)}
        if self.match is not None:
            out["match"] = list(self.match)
        return out


@dataclass(frozen=True)
class Insertion:
    """A pattern put into the target's order, before or after a named one (the end when neither is given)."""

    pattern: str
    before: str | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        if self.before and self.after:
            raise RecipeError(f"'{self.pattern}' is inserted before or after a pattern, not both: give one of them")


@dataclass(frozen=True)
class Recipe:
    """What a lowering is told to do: the target, what is switched off and on, what is left alone, what is put in.

    disabled: patterns of the target that do not apply (they are matched all the same, and show what they would take).
    enabled: patterns of the target that are off by default, and apply.
    skips: what is left alone. insertions: patterns put in or moved. profile: device profile fields that differ from the
    target's. keep: ops that core_aten leaves whole, beside the target's.
    """

    target: str
    disabled: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()
    skips: tuple[Skip, ...] = ()
    insertions: tuple[Insertion, ...] = ()
    profile: tuple[tuple[str, Any], ...] = ()
    keep: frozenset[str] = frozenset()

    # ------------------------------------------------------------------ changed copies
    def disable(self, *names: str) -> Recipe:
        """Switch patterns off."""
        return replace(self, disabled=self.disabled | set(names), enabled=self.enabled - set(names))

    def enable(self, *names: str) -> Recipe:
        """Switch patterns on."""
        whole = {s for s in self.skips if s.whole_pattern and s.pattern in names}
        return replace(
            self,
            disabled=self.disabled - set(names),
            enabled=self.enabled | set(names),
            skips=tuple(s for s in self.skips if s not in whole),
        )

    def skip(self, *skips: Skip) -> Recipe:
        """Add to the skip list."""
        return replace(self, skips=(*self.skips, *(s for s in dict.fromkeys(skips) if s not in self.skips)))

    def unskip(self, *skips: Skip) -> Recipe:
        """Take off the skip list. RecipeError: it is not there."""
        for skip in skips:
            if skip not in self.skips:
                listed = ", ".join(map(str, self.skips)) or "nothing"
                raise RecipeError(f"'{skip}' is not on the skip list, which holds {listed}")
        return replace(self, skips=tuple(s for s in self.skips if s not in skips))

    def insert(self, pattern: str, *, before: str | None = None, after: str | None = None) -> Recipe:
        """Put a pattern in, or move it, before or after a named one; it is enabled by that."""
        others = tuple(i for i in self.insertions if i.pattern != pattern)
        changed = replace(self, insertions=(*others, Insertion(pattern, before, after)))
        return changed.enable(pattern)

    def with_profile(self, **fields: Any) -> Recipe:
        """Set fields of the device profile."""
        return replace(self, profile=tuple(sorted({**dict(self.profile), **fields}.items())))

    # ------------------------------------------------------------------ forms
    def to_json(self) -> str:
        """A JSON object; `from_json` reads it back to an equal recipe."""
        return json.dumps(self.as_dict(), indent=2)

    def as_dict(self) -> dict[str, Any]:
        """Plain values: what is empty is left out."""
        out: dict[str, Any] = {"target": self.target}
        for name in ("disabled", "enabled", "keep"):
            if getattr(self, name):
                out[name] = sorted(getattr(self, name))
        if self.skips:
            out["skips"] = [s.as_dict() for s in self.skips]
        if self.insertions:
            out["insertions"] = [{k: v for k, v in vars(i).items() if v} for i in self.insertions]
        if self.profile:
            out["profile"] = dict(self.profile)
        return out

    @classmethod
    def from_json(cls, text: str | Mapping[str, Any]) -> Recipe:
        """Read what `to_json` wrote. RecipeError: not JSON, or a field that a recipe does not have."""
        try:
            data = dict(json.loads(text)) if isinstance(text, str) else dict(text)
        except (ValueError, TypeError) as error:
            raise RecipeError(f"this is not a recipe in JSON ({error}): use what Recipe.to_json() wrote") from None
        known = set(cls.__dataclass_fields__)
        if "target" not in data or set(data) - known:
            raise RecipeError(
                f"a recipe has 'target' and may have {', '.join(sorted(known - {'target'}))}; "
                f"got {', '.join(map(str, data)) or 'nothing'}"
            )
        try:
            skips = tuple(
                Skip(**{**s, "match": tuple(s["match"]) if "match" in s else None}) for s in data.get("skips", ())
            )
            insertions = tuple(Insertion(**i) for i in data.get("insertions", ()))
        except TypeError as error:
            raise RecipeError(f"a skip or an insertion of this recipe has a field that is not known: {error}") from None
        return cls(
            target=data["target"],
            disabled=names_of(data.get("disabled", ()), "disabled"),
            enabled=names_of(data.get("enabled", ()), "enabled"),
            skips=skips,
            insertions=insertions,
            profile=tuple(sorted(dict(data.get("profile", {})).items())),
            keep=names_of(data.get("keep", ()), "keep"),
        )

    def to_python(self, session: str = "session") -> str:
        """Lines of Python that bring a fresh session to this recipe."""
        lines = [f"{session}.set_target({self.target!r})"]
        lines += [f"{session}.insert({i.pattern!r}{_where(i)})" for i in self.insertions]
        inserted = {i.pattern for i in self.insertions}
        lines += [f"{session}.disable({name!r})" for name in sorted(self.disabled)]
        lines += [f"{session}.enable({name!r})" for name in sorted(self.enabled - inserted)]
        lines += [f"{session}.skip({', '.join(f'{k}={v!r}' for k, v in s.as_dict().items())})" for s in self.skips]
        if self.profile:
            lines.append(f"{session}.set_profile({', '.join(f'{k}={v!r}' for k, v in self.profile)})")
        lines += [f"{session}.keep({name!r})" for name in sorted(self.keep)]
        return "\n".join(lines)

    def compile_options(self) -> dict[str, set[str]]:
        """What `VulkanPartitioner(compile_options=...)` takes: the patterns that this recipe skips or disables."""
        names = self.disabled | {s.pattern for s in self.skips if s.whole_pattern and s.pattern}
        return {"skip_fusion_patterns": set(names)} if names else {}

    @classmethod
    def from_compile_options(cls, options: Mapping[str, Any], target: str = "vulkan") -> Recipe:
        """The recipe that `compile_options` describe. ValueError (RecipeError): `skip_fusion_patterns` is a bare string."""
        names = skip_fusion_patterns(options.get("skip_fusion_patterns", ()))
        return cls(target, skips=tuple(Skip(pattern=name) for name in sorted(names)))


def names_of(value: Any, field: str) -> frozenset[str]:
    """A collection of names. RecipeError: it is none; a bare string is a collection of characters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise RecipeError(f"{field} is a collection of names: write {{{value!r}}}, not {value!r}")
    return frozenset(str(v) for v in value)


def skip_fusion_patterns(value: Any) -> frozenset[str]:
    """Check a `skip_fusion_patterns` value against the known patterns.

    RecipeError (a ValueError): a bare string, or a name that is no pattern (the closest ones are named).
    """
    names = names_of(value, "skip_fusion_patterns")
    for name in sorted(names):
        if name not in REGISTRY:
            raise RecipeError(str(unknown("pattern", name, REGISTRY.names())))
    return names


def _where(insertion: Insertion) -> str:
    if insertion.before:
        return f", before={insertion.before!r}"
    return f", after={insertion.after!r}" if insertion.after else ""
