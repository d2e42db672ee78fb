#!/usr/bin/env bash
# Run a command with a Docker engine of its own, where none runs: in CI, on a bare
# machine. As root, on Debian or Ubuntu; docker.io is installed if it is missing.
#
#   docker/engine.sh COMMAND [ARGUMENT...]
#
# The engine has no bridge and sets no forwarding rule, so there is none to put back:
# builds use the machine's own network (`--network host`), containers have none. It ends
# with the command. Its images stay in build/engine (`ACKNAP_ENGINE` names another
# folder) for the next run.
set -euo pipefail

fail() {
    echo "error: $*" >&2
    exit 2
}

[ $# -gt 0 ] || fail "usage: docker/engine.sh COMMAND [ARGUMENT...]"
export PATH=$PATH:/usr/sbin:/sbin # where dockerd is
[ "$(id -u)" = 0 ] || fail "an engine of its own needs root"
if ! command -v dockerd >/dev/null; then
    command -v apt-get >/dev/null || fail "no dockerd and no apt-get: install docker"
    echo "Installing docker.io" >&2
    said=$({
        apt-get update -qq
        # Parts of docker.io on some releases, packages of their own on others.
        mapfile -t parts < <(apt-cache pkgnames docker- | grep -xE 'docker-(cli|buildx)')
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            docker.io "${parts[@]}"
    } 2>&1) || fail "apt-get: $(tail -n 1 <<<"$said")"
fi

root=$(cd -- "$(dirname -- "$0")/.." && pwd -P)
data=${ACKNAP_ENGINE:-${ACKNAP_BUILD:-$root/build}/engine}
mkdir -p "$data"
exec 9>"$data/lock"
flock -n 9 || fail "another engine works in $data"

# A short path: the name of a socket has at most 107 characters.
run=$(mktemp -d /tmp/acknap-engine.XXXXXX)
engine=''

# shellcheck disable=SC2317,SC2329 # the trap calls it
stop() {
    trap '' INT TERM
    if [ -n "$engine" ]; then
        kill "$engine" 2>/dev/null || true # its containerd goes with it
        wait "$engine" 2>/dev/null || true
    fi
    # Namespaces of containers that a killed engine left mounted.
    while read -r mounted; do
        umount -l "$mounted" || true
    done < <(awk -v run="$run/" 'index($5, run) == 1 {print $5}' /proc/self/mountinfo)
    rm -rf "$run"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

export DOCKER_HOST=unix://$run/docker.sock
# In a session of its own: Ctrl-C is for the command.
setsid dockerd --host "$DOCKER_HOST" --data-root "$data/data" --exec-root "$run/exec" \
    --pidfile "$run/pid" --bridge none --iptables=false --ip-forward=false \
    --ip-masq=false --storage-driver overlay2 >"$data/dockerd.log" 2>&1 9>&- </dev/null &
engine=$!

answers() {
    docker version >/dev/null 2>&1
}
for _ in $(seq 120); do
    answers && break
    kill -0 "$engine" 2>/dev/null ||
        fail "the engine did not start: $(tail -n 1 "$data/dockerd.log")"
    sleep 0.5
done
answers || fail "the engine does not answer after 60 s (log: $data/dockerd.log)"

status=0
"$@" 9>&- || status=$?
exit "$status"
