"""Tests of the package's names, types and docstrings."""

import ast
import dataclasses
import inspect
import pathlib
import pickle
import re
import unittest

import uzram

README = pathlib.Path(__file__).parents[2] / "README.md"
STUBS = pathlib.Path(uzram.__file__).with_name("__init__.pyi")
# Members that the stubs need not declare, because every class has them.
COMMON = set(dir(object)) | {"__module__", "__weakref__", "__dict__", "__slotnames__"}


def public(names):
    return {name for name in names if not name.startswith("_")}


def stub_parameters(function):
    """Returns the names, kinds and defaults of the parameters that a stub declares."""
    arguments = function.args
    named = arguments.posonlyargs + arguments.args
    absent = [inspect.Parameter.empty]
    defaults = absent * (len(named) - len(arguments.defaults)) + [
        ast.literal_eval(default) for default in arguments.defaults
    ]
    told = [(arg.arg, "positional", default) for arg, default in zip(named, defaults)]
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        default = absent[0] if default is None else ast.literal_eval(default)
        told.append((arg.arg, "keyword", default))
    return [parameter for parameter in told if parameter[0] not in ("self", "cls")]


def parameters(function):
    told = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        kind = "keyword" if parameter.kind is parameter.KEYWORD_ONLY else "positional"
        told.append((parameter.name, kind, parameter.default))
    return [parameter for parameter in told if parameter[0] not in ("self", "cls")]


class Stubs(unittest.TestCase):
    def setUp(self):
        self.tree = ast.parse(STUBS.read_text())
        self.defined = {
            node.name: node
            for node in self.tree.body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef))
        }

    def test_names_are_those_of_the_package(self):
        told = set(self.defined)
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.level:
                told |= {name.asname for name in node.names}
            if isinstance(node, ast.AnnAssign):
                told.add(node.target.id)
            if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
                self.assertEqual(ast.literal_eval(node.value), uzram.__all__)
        self.assertEqual(told, set(uzram.__all__))
        modules = {name for name in vars(uzram) if inspect.ismodule(getattr(uzram, name))}
        self.assertEqual(public(vars(uzram)) - modules, public(uzram.__all__))

    def test_functions_have_the_same_parameters(self):
        for name, node in self.defined.items():
            if isinstance(node, ast.FunctionDef):
                with self.subTest(name):
                    self.assertEqual(stub_parameters(node), parameters(getattr(uzram, name)))

    def test_classes_have_the_same_members(self):
        for name, node in self.defined.items():
            if not isinstance(node, ast.ClassDef) or name == "Error":
                continue
            cls = getattr(uzram, name)
            members = {item.name: item for item in node.body if hasattr(item, "name")}
            real = {
                member
                for member in vars(cls)
                if member not in COMMON and member not in ("__buffer__", "__release_buffer__")
            }
            self.assertEqual(set(members) - {"__new__", "__buffer__"}, real, name)
            for member, item in members.items():
                with self.subTest(f"{name}.{member}"):
                    decorators = [ast.unparse(decorator) for decorator in item.decorator_list]
                    if member == "__new__":
                        self.assertEqual(stub_parameters(item), parameters(cls))
                    elif "property" in decorators:
                        self.assertTrue(inspect.isdatadescriptor(getattr(cls, member)))
                    elif not member.startswith("__"):
                        method = getattr(cls, member)
                        self.assertEqual(stub_parameters(item), parameters(method))
                        is_bound = getattr(method, "__self__", None) is cls
                        self.assertEqual("classmethod" in decorators, is_bound)


class Package(unittest.TestCase):
    def test_everything_has_a_docstring(self):
        self.assertIn("bytes", uzram.__doc__)
        for name in public(uzram.__all__):
            thing = getattr(uzram, name)
            self.assertTrue(thing.__doc__, name)
            self.assertEqual(thing.__module__.split(".")[0], "uzram", name)
            if not inspect.isclass(thing) or issubclass(thing, uzram.Error):
                continue
            if dataclasses.is_dataclass(thing):
                for field in dataclasses.fields(thing):
                    self.assertRegex(thing.__doc__, rf"(?m)^ *{field.name}: .", name)
                continue
            for member in public(vars(thing)):
                self.assertTrue(getattr(thing, member).__doc__, f"{name}.{member}")

    def test_docstrings_name_no_rust(self):
        for name in public(uzram.__all__):
            thing = getattr(uzram, name)
            members = public(vars(thing)) if inspect.isclass(thing) else ()
            for doc in (thing.__doc__, *(getattr(thing, member).__doc__ for member in members)):
                self.assertIsNone(re.search(r"::|\[`", doc or ""), name)

    def test_the_version_is_one(self):
        self.assertRegex(uzram.__version__, r"^\d+\.\d+\.\d+$")

    def test_algorithms_are_listed(self):
        self.assertEqual(uzram.algorithms()[0], "lz4")
        self.assertIn("zstd", uzram.algorithms())

    def test_errors_are_those_of_the_system(self):
        self.assertTrue(issubclass(uzram.Error, OSError))
        with self.assertRaises(OSError) as caught:
            uzram.Device(0)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertIs(type(again), uzram.Error)
        self.assertEqual((again.errno, again.args), (caught.exception.errno, again.args))

    def test_classes_are_final(self):
        for cls in (uzram.Cache, uzram.Device, uzram.Pool, uzram.Region, uzram.RegionLock):
            with self.assertRaises(TypeError):
                type("Sub", (cls,), {})

    def test_the_example_of_the_readme_runs(self):
        blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        self.assertEqual(len(blocks), 1)
        exec(compile(blocks[0], str(README), "exec"), {})
