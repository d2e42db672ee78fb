"""What the package takes from PyTorch beyond its documented hooks: a table by release.

The harness holds the table against the files of every release: standard library only.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

# By file and name the parameters, or a class's fields, from a release on.
TABLE: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "torch/_dynamo/callback.py": {
        "CompilationCallbackHandler.register_end_callback": {
            "2.11.0": "self, callback"
        },
        "CompilationCallbackHandler.remove_end_callback": {"2.11.0": "self, callback"},
    },
    "torch/_functorch/partitioners.py": {
        "MinCutOptions": {
            "2.11.0": "ban_if_used_far_apart, ban_if_long_fusible_chains, "
            "ban_if_materialized_backward, ban_if_not_in_allowlist, ban_if_reduction"
        },
        "_size_of": {"2.11.0": "node"},
        "choose_saved_values_set": {
            "2.11.0": "joint_graph, node_info, memory_budget=1"
        },
        "min_cut_rematerialization_partition": {
            "2.11.0": "joint_module, _joint_inputs, compiler='inductor', *, "
            "num_fwd_outputs, static_lifetime_input_indices=None"
        },
        "solve_min_cut": {
            "2.11.0": "joint_graph, node_info, min_cut_options, dont_ban=None"
        },
    },
    "torch/_guards.py": {
        "CompileContext.current_compile_id": {"2.11.0": ""},
        "tracing": {"2.11.0": "context"},
    },
    "torch/_inductor/__init__.py": {
        "list_mode_options": {"2.11.0": "mode=None, dynamic=None"},
    },
    "torch/_inductor/compile_fx.py": {
        "compile_fx": {
            "2.11.0": "model_, example_inputs_, inner_compile=compile_fx_inner, "
            "config_patches=None, decompositions=None, ignore_shape_env=False",
            "2.12.0": "model_, example_inputs_, inner_compile=compile_fx_inner, "
            "config_patches=None, decompositions=None, ignore_shape_env=False, "
            "compile_region_name=None",
        },
    },
    "torch/_subclasses/fake_tensor.py": {
        "FakeTensorMode.from_tensor": {
            "2.11.0": "self, tensor, *, static_shapes=None, source=None, "
            "symbolic_context=None, trace=True"
        },
        "unset_fake_temporarily": {"2.11.0": ""},
    },
}


def differences(release: str, read: Callable[[str], bytes]) -> Iterator[str]:
    """Say what of a release is not as in the table.

    Args:
        release: Such as "2.11.0".
        read: Gives the text of a file of the release.
    """
    for path, names in TABLE.items():
        module = ast.parse(read(path))
        for name, since in names.items():
            wanted = since[
                max((r for r in since if _key(r) <= _key(release)), key=_key)
            ]
            found = _parameters(module.body, name)
            if found is None:
                yield f"{path} has no {name}"
            elif found != wanted:
                yield f"{path}: the parameters of {name} are ({found}), not ({wanted})"


def _key(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


def _parameters(body: Sequence[ast.stmt], name: str) -> str | None:
    """The parameters of a function, without types, or the fields of a class."""
    name, _, rest = name.partition(".")
    for node in body:
        match node:
            case ast.FunctionDef(name=found, args=arguments) if found == name:
                for one in ast.walk(arguments):
                    if isinstance(one, ast.arg):
                        one.annotation = None
                return ast.unparse(arguments)
            case ast.ClassDef(name=found, body=inner) if found == name:
                if rest:
                    return _parameters(inner, rest)
                fields = (n.target for n in inner if isinstance(n, ast.AnnAssign))
                return ", ".join(map(ast.unparse, fields))
    return None
