"""Size of the program: `python -m bench.size`. Lines of each package by kind, and the longest functions and modules.

A line is code, documentation (of a docstring), a comment or blank. `--long N` prints functions of N lines and more; `--small N` modules of
at most N lines that one module alone imports, of the same package: these could be part of it. Two lists should be empty: modules of two
topics (a further paragraph of the docstring that reads like a title), and families (a base class whose only subclass is in
another file of its folder, and which nothing else uses). The last list has the numbers with bounds; `python -m bench.path` has those
of a call.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAX_LINES = 650
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """Parsed file. `package` is its package in toolgen; `toolgen` for a module beside the packages."""

    name: str
    package: str
    text: str
    tree: ast.Module

    @classmethod
    def read(cls, path: Path) -> Module:
        text = path.read_text(encoding="utf-8")
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        package = ".".join(path.relative_to(ROOT).parent.parts[:2])
        return cls(name=name, package=package, text=text, tree=ast.parse(text))

    def kinds(self) -> Mapping[str, int]:
        """Its lines by what they are."""
        documented = {line for node in ast.walk(self.tree) for line in _docstring(node)}
        found = dict.fromkeys(("code", "documentation", "comments", "blank"), 0)
        for number, line in enumerate(self.text.splitlines(), 1):
            kind = "documentation" if number in documented else "blank" if not line.strip() else "code"
            found["comments" if kind == "code" and line.lstrip().startswith("#") else kind] += 1
        return found

    def functions(self) -> Iterator[tuple[int, str]]:
        """The lines and the name of each function."""
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{self.name}:{node.lineno} {node.name}"

    def imports(self) -> Iterator[str]:
        """Return the imported modules by dotted name, and the names taken from them, which may be modules too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{one.name}" for one in node.names)
            elif isinstance(node, ast.Import):
                yield from (one.name for one in node.names)

    def titles(self) -> list[str]:
        """Further paragraphs of the docstring that are titles: no verb in the form of the third person, no second sentence."""
        paragraphs = [" ".join(one.split()) for one in (ast.get_docstring(self.tree) or "").split("\n\n")]
        return [one for one in paragraphs[1:] if _is_title(one)]

    def bases(self) -> Iterator[tuple[str, str]]:
        """Each class at the top of the module, with each class that it derives from."""
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                yield from ((node.name, ast.unparse(base).partition("[")[0]) for base in node.bases)


# Verbs that make a sentence. A title has none before its first colon or comma.
_VERB = re.compile(
    r"\b(is|are|was|were|has|have|may|can|cannot|must|does|do|leads?|comes?|goes|takes?|costs?|stands?|gets?|knows?|makes?|means?|asks?"
    r"|needs?|needs|runs?|uses?|gives?|keeps?|connects?|supports?|covers|belongs|begins|ends|says?|looks?|reaches|holds|writes|wrote|arrives"
    r"|accepts|applies|share|decode|depends|compares|imports|contains|exists|judges|names)\b"
)


# Words that begin a clause in place of a title: "Which certificates a command means."
_QUESTION = re.compile(r"(What|Which|Whose|Who|How|Whether)\b")


def _is_title(paragraph: str) -> bool:
    sentence, _, more = paragraph.partition(". ")
    verbless = not _VERB.search(re.split(r"[:,;]", sentence)[0])
    return (
        not more and len(paragraph) < 160 and paragraph.endswith(".") and (verbless or bool(_QUESTION.match(paragraph)))
    )


def _docstring(node: ast.AST) -> range:
    if not isinstance(node, Documented) or ast.get_docstring(node, clean=False) is None:
        return range(0)
    return range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)


def _print_packages(modules: list[Module]) -> None:
    packages: dict[str, list[Module]] = defaultdict(list)
    for module in modules:
        packages[module.package].append(module)
    print(f"{'package':20} files  lines   code   docs comments  blank")
    for name, within in [*sorted(packages.items()), ("all", modules)]:
        kinds = [module.kinds() for module in within]
        code, docs, comments, blank = (sum(one[kind] for one in kinds) for kind in kinds[0])
        lines = code + docs + comments + blank
        print(f"{name:20}{len(within):6}{lines:7}{code:7}{docs:7}{comments:9}{blank:7}")


def _print_small(modules: list[Module], most: int) -> None:
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in module.imports():
            importers[name].add(module.name)
    for module in modules:
        lines, by = len(module.text.splitlines()), importers[module.name]
        alone = next(iter(by)) if len(by) == 1 else ""
        if lines <= most and alone.rpartition(".")[0] == module.name.rpartition(".")[0] and "." in module.name:
            print(f"{lines:4} {module.name}, imported by {alone}")


def families(modules: list[Module]) -> list[str]:
    """Base classes whose only subclass is in another file of their folder, and which nothing else uses."""
    homes = {name: module for module in modules for name in _classes(module)}
    derived: dict[str, list[tuple[str, Module]]] = defaultdict(list)
    for module in modules:
        for name, base in module.bases():
            derived[base].append((name, module))
    found = []
    for base, ((name, module), *others) in derived.items():
        home = homes.get(base)
        if home is None or others or home is module or home.name.rpartition(".")[0] != module.name.rpartition(".")[0]:
            continue
        uses = sum(
            len(re.findall(rf"\b{base}\b(?!,?\n? *\))", one.text)) for one in modules if one not in {home, module}
        )
        if not uses and not re.search(rf"\b{base}\(", home.text.replace(f"class {base}(", "")):
            found.append(f"{home.name}.{base}, of {module.name}.{name} alone")
    return found


def _classes(module: Module) -> Iterator[str]:
    return (node.name for node in module.tree.body if isinstance(node, ast.ClassDef))


def compared_expiries(name: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Functions of a module that compare an attribute `expires` by order. `nodes` are all of the module's."""
    for function in nodes:
        if not isinstance(function, Function):
            continue
        for node in ast.walk(function):
            ordered = isinstance(node, ast.Compare) and any(
                isinstance(one, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for one in node.ops
            )
            if ordered and any(isinstance(one, ast.Attribute) and one.attr == "expires" for one in ast.walk(node)):
                yield f"{name}.{function.name}"


def single_protocols(modules: list[Module]) -> list[str]:
    """Protocols with methods that at most one class or module of the package has all of, and that do not say why they are protocols.

    The reason is a sentence of the docstring: "A protocol, because …"."""
    classes = [
        (module.name, node) for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    ]
    derived = {node.name: [ast.unparse(base).partition("[")[0] for base in node.bases] for _, node in classes}
    own = {node.name: _members(node) for _, node in classes}

    def members(name: str) -> set[str]:
        return own.get(name, set()).union(*(members(base) for base in derived.get(name, ())))

    concrete = [members(name) for name, bases in derived.items() if "Protocol" not in bases]
    concrete += [_bound(module.tree.body) for module in modules]
    return [
        f"{module}.{node.name}"
        for module, node in classes
        if "Protocol" in derived[node.name]
        and "A protocol, because " not in " ".join((ast.get_docstring(node) or "").split())
        and (asked := members(node.name) - {"__call__"})
        and sum(asked <= one for one in concrete) <= 1
    ]


def _bound(body: list[ast.stmt]) -> set[str]:
    """Names of functions and variables that these statements define."""
    found = {one.name for one in body if isinstance(one, Function)}
    targets = [one.target for one in body if isinstance(one, ast.AnnAssign)]
    targets += [target for one in body if isinstance(one, ast.Assign) for target in one.targets]
    return found | {one.id for one in targets if isinstance(one, ast.Name)}


def _members(node: ast.ClassDef) -> set[str]:
    """Names of methods and attributes, including those that methods assign."""
    found = _bound(node.body)
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and ast.unparse(one.value) == "self":
            found.add(one.attr)
    return found


def nested_mains(tree: ast.AST) -> int:
    """Coroutine functions `main` within functions of a module. Methods, and programs in the text of a string, are others."""
    within = {
        nested
        for function in ast.walk(tree)
        if isinstance(function, Function)
        for nested in ast.walk(function)
        if isinstance(nested, ast.AsyncFunctionDef) and nested is not function and nested.name == "main"
    }
    methods = {one for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for one in node.body}
    return len(within - methods)


def _nested_mains() -> int:
    paths = (ROOT / "tests").rglob("*.py")
    return sum(nested_mains(ast.parse(path.read_text(encoding="utf-8"))) for path in paths)


def _files_to_add() -> Iterator[tuple[int, str]]:
    """Files of the package that ARCHITECTURE.md names for each thing to add, and the thing."""
    rows = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## How to add")[2].partition("\n## ")[0]
    for what, files in re.findall(r"^\| (an? [^|]+?) \| (.+) \|$", rows, re.MULTILINE):
        yield len(set(re.findall(r"`((?!tests/)[\w./]+(?:\.py|\.yaml|/))`", files))), what


def _print_numbers(modules: list[Module]) -> None:
    entries = [one.name for one in (ROOT / "toolgen").iterdir() if one.name != "__pycache__"]
    print(f"{len(entries):5} top-level entries of toolgen/")
    print(f"{sum(len(one.text.splitlines()) > MAX_LINES for one in modules):5} modules of more than {MAX_LINES} lines")
    print(f"{sum(len(one.titles()) > 0 for one in modules):5} modules of two topics")
    print(f"{len(families(modules)):5} class families across files of one folder")
    single = single_protocols(modules)
    print(f"{len(single):5} protocols with one implementation and no reason: {', '.join(single)}")
    expiries = [one for module in modules for one in compared_expiries(module.name, ast.walk(module.tree))]
    print(f"{len(expiries):5} functions that compare an expiry: {', '.join(expiries)}")
    print(f"{_nested_mains():5} coroutine functions `main` within functions of tests")
    for count, what in _files_to_add():
        print(f"{count:5} files or folders to add {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", type=int, default=50, metavar="N")
    parser.add_argument("--small", type=int, default=100, metavar="N")
    chosen = parser.parse_args()
    modules = [Module.read(path) for path in sorted((ROOT / "toolgen").rglob("*.py"))]
    _print_packages(modules)
    print(f"\nfunctions of {chosen.long} lines and more")
    for lines, name in sorted((one for module in modules for one in module.functions()), reverse=True):
        if lines >= chosen.long:
            print(f"{lines:4} {name}")
    print("\nmodules of two topics")
    for module in modules:
        for title in module.titles():
            print(f"     {module.name}: {title}")
    print("\nclass families across files of one folder")
    for family in families(modules):
        print(f"     {family}")
    print(f"\nmodules of at most {chosen.small} lines with one importer, of the same package")
    _print_small(modules, chosen.small)
    print("\nnumbers")
    _print_numbers(modules)


if __name__ == "__main__":
    main()
