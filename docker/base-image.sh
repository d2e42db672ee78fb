#!/usr/bin/env bash
# Make a base image from the distribution's packages, where no image registry is
# reachable. As root, on Debian or Ubuntu, with an engine running.
#
#   docker/base-image.sh IMAGE [PACKAGE...]
#
# The packages come from the mirror that this machine's apt uses (`ACKNAP_MIRROR` names
# another one). A build from source needs ccache, too: name it.
# Nothing of this machine's configuration goes into the image.
set -euo pipefail

# A compiler and Python's headers: Inductor compiles C++ for the CPU.
PACKAGES=(ca-certificates g++ git python3 python3-dev python3-venv)

fail() {
    echo "error: $*" >&2
    exit 2
}

[ $# -gt 0 ] || fail "usage: docker/base-image.sh IMAGE [PACKAGE...]"
image=$1
PACKAGES+=("${@:2}")
[ "$(id -u)" = 0 ] || fail "mmdebstrap needs root"
docker version >/dev/null 2>&1 ||
    fail "no container engine answers: start docker, or use docker/engine.sh"
if ! command -v mmdebstrap >/dev/null; then
    command -v apt-get >/dev/null || fail "no mmdebstrap and no apt-get"
    echo "Installing mmdebstrap" >&2
    said=$({ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install \
        -y -qq --no-install-recommends mmdebstrap; } 2>&1) ||
        fail "apt-get: $(tail -n 1 <<<"$said")"
fi

# shellcheck source=/dev/null
. /etc/os-release
# shellcheck disable=SC2016 # apt-get expands it
mirror=${ACKNAP_MIRROR:-$(apt-get indextargets --format '$(SITE)' \
    "Codename: $VERSION_CODENAME" 'Component: main' | head -n 1)}
[ -n "$mirror" ] || fail "apt has no mirror of $VERSION_CODENAME: set ACKNAP_MIRROR"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "Making $image from the packages of $ID $VERSION_CODENAME (1 to 3 minutes)" >&2
# shellcheck disable=SC2016 # mmdebstrap expands it
mmdebstrap --mode=root --variant=minbase --include="${PACKAGES[*]}" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='cd "$1" && rm -f etc/apt/sources.list etc/hostname etc/resolv.conf' \
    "$VERSION_CODENAME" "$work/root.tar" "$mirror" >"$work/log" 2>&1 ||
    fail "mmdebstrap: $(grep '^E:' "$work/log" | head -n 1)"
docker import --change 'CMD ["python3"]' "$work/root.tar" "$image" >/dev/null
echo "$image: $(docker image inspect --format '{{.Size}}' "$image" |
    awk '{printf "%.0f MB", $1 / 1e6}')" >&2
