#!/usr/bin/env bash
# Build torch from source with the series on top, install it and run its tests.
#
#   docker/build-torch.sh TARGET REPOSITORY DIR
#
# REPOSITORY is a URL, cloned at the target's tag, or a checkout at that tag, copied.
# DIR gets dist/ (the wheel), venv/ (where it is installed) and test/ (upstream's tests
# of activation checkpointing, and ours). MAX_JOBS limits the compiler processes.
set -euo pipefail

fail() {
    echo "error: $*" >&2
    exit 2
}

[ $# = 3 ] || fail "usage: docker/build-torch.sh TARGET REPOSITORY DIR"
target=$1 repository=$2 directory=$3
root=$(cd -- "$(dirname -- "$0")/.." && pwd -P)
release=${target#v}

# The commit of the target, then a line per file of its series: blob id, path.
pinned=$(python3 - "$root/patches/targets.toml" "$target" <<'PY'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    target = tomllib.load(file)["targets"].get(sys.argv[2])
if target:
    print(target["commit"])
    for path, blob in target["after"].items():
        print(blob, path)
PY
)
[ -n "$pinned" ] || fail "unknown target $target"
commit=$(head -n 1 <<<"$pinned")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$work/torch

echo "== Source: $target"
if [ -d "$repository/.git" ]; then
    # Without its owner: git refuses to work in other people's repositories.
    cp -R --no-dereference --preserve=mode,timestamps,links "$repository" "$source"
    git -C "$source" clean -ffdxq
    git -C "$source" submodule --quiet foreach --recursive git clean -ffdxq
else
    git clone --quiet --depth 1 --branch "$target" --recurse-submodules \
        --shallow-submodules --jobs 8 -c advice.detachedHead=false \
        "$repository" "$source" || fail "cannot clone $target"
fi
head=$(git -C "$source" rev-parse HEAD)
[ "$head" = "$commit" ] ||
    fail "the source is at $head, patches/targets.toml says $commit for $target"
changed=$(git -C "$source" status --porcelain | head -n 1)
[ -z "$changed" ] || fail "the source has local changes: $changed"

echo "== Series"
"$root/scripts/harness" apply "$target" "$source"

echo "== Wheel"
# For a CPU, without what the tests of activation checkpointing have no use for.
export USE_CUDA=0 USE_ROCM=0 USE_XPU=0 BUILD_TEST=0 USE_DISTRIBUTED=1
export USE_FBGEMM=0 USE_KINETO=0 USE_MKLDNN=0 USE_NNPACK=0 USE_PYTORCH_QNNPACK=0
export USE_XNNPACK=0
export PYTORCH_BUILD_VERSION=$release PYTORCH_BUILD_NUMBER=1
[ -n "${MAX_JOBS:-}" ] || unset MAX_JOBS
mkdir -p "$directory"
python3 -m venv --clear "$directory/venv"
python=$directory/venv/bin/python
# pip installs cmake, ninja and the rest of what the source's pyproject.toml asks for.
"$python" -m pip wheel --no-deps --wheel-dir "$directory/dist" "$source"

echo "== Installation"
"$python" -m pip install --requirement "$root/requirements/torch-$release.txt" \
    "$directory"/dist/torch-*.whl
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
while read -r blob path; do
    case $path in torch/*) ;; *) continue ;; esac
    found=$(git hash-object --no-filters "$packages/$path")
    [ "$found" = "$blob" ] ||
        fail "the installed $path has blob id $found, patches/targets.toml says $blob"
done < <(tail -n +2 <<<"$pinned")

echo "== Tests"
# Outside the checkout, whose torch/ folder would be imported instead.
mkdir -p "$directory/test"
cp "$source"/test/functorch/test_ac*.py "$directory/test/"
cd "$directory/test"
"$python" -m pytest -q -c /dev/null --rootdir . -p no:cacheprovider .
