#!/usr/bin/env bash
# Build the image and see it work as it would in production: read-only, without capabilities, not root.
#
#   deploy/verify-image.sh [TAG]      (default budgetrec:verify)
#
# ENGINE        docker or podman; whichever is there if not set
# BUILD_ARGS    more arguments for the build, for example "--network host"
# SKIP_BUILD=1  verify an image that exists already
set -euo pipefail

cd "$(dirname "$0")/.."
tag=${1:-budgetrec:verify}
engine=${ENGINE:-$(command -v docker || command -v podman || true)}
if [ -z "$engine" ]; then
    echo "No container engine: install docker or podman, or name one in ENGINE." >&2
    exit 2
fi

container=
cleanup() {
    if [ -n "$container" ]; then "$engine" rm -f "$container" >/dev/null 2>&1 || true; fi
}
trap cleanup EXIT

say() { printf '%-22s %s\n' "$1" "$2"; }
fail() {
    echo "FAILED: $1" >&2
    if [ -n "$container" ]; then "$engine" logs --tail 40 "$container" >&2 || true; fi
    exit 1
}
inspect() { "$engine" inspect --format "$1" "$container"; }

if [ "${SKIP_BUILD:-}" != 1 ]; then
    revision=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
    read -r -a more <<<"${BUILD_ARGS:-}"
    "$engine" build -q -t "$tag" --build-arg "REVISION=$revision" ${more[@]+"${more[@]}"} . >/dev/null || fail "the build"
fi
say image "$tag, $("$engine" image inspect --format '{{.Size}}' "$tag" | awk '{printf "%.0f MB", $1 / 1e6}')"
say labels "$("$engine" image inspect --format '{{index .Config.Labels "org.opencontainers.image.title"}} {{index .Config.Labels "org.opencontainers.image.version"}} {{index .Config.Labels "org.opencontainers.image.revision"}}' "$tag")"

# Nothing can be written but two small file systems in memory; the demo model goes into one of them.
container=$("$engine" run -d --read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 256 \
    --tmpfs /tmp --tmpfs /models:uid=10001,gid=10001 -p 127.0.0.1::8000 "$tag")
address=$("$engine" port "$container" 8000/tcp | head -n 1)

for _ in $(seq 240); do
    health=$(inspect '{{.State.Health.Status}}')
    [ "$health" = healthy ] && break
    [ "$(inspect '{{.State.Running}}')" = true ] || fail "the container ended before it was healthy"
    sleep 0.5
done
[ "$health" = healthy ] || fail "not healthy after two minutes, but $health"
say healthy "yes, by its own HEALTHCHECK"

user=$("$engine" exec "$container" python -c 'import os; print(os.getuid())')
[ "$user" != 0 ] || fail "it runs as root"
say user "$user"

first=$("$engine" exec "$container" python -c 'print(open("/proc/1/cmdline").read().replace("\0", " ").strip())')
case $first in
*"sh -c"* | /bin/sh*) fail "a shell is process 1: $first" ;;
esac
say "process 1" "$first"

capabilities=$("$engine" exec "$container" python -c \
    'print(next(line.split()[1] for line in open("/proc/1/status") if line.startswith("CapEff")))')
[ "$((16#$capabilities))" -eq 0 ] || fail "it has capabilities: $capabilities"
say capabilities none

if "$engine" exec "$container" python -c 'open("/opt/budgetrec/x", "w")' 2>/dev/null; then fail "the root can be written"; fi
say root "read-only"

answer=$(curl -fsS --max-time 5 "http://$address/recommend?user_id=42&budget=64&top_k=3") || fail "the query"
python3 - "$answer" <<'PYTHON' || fail "the answer is not as promised: $answer"
import json, sys
answer = json.loads(sys.argv[1])
assert len(answer["items"]) == 3 and answer["spent"] <= answer["budget"] == 64, answer
PYTHON
say answer "$answer"

started=$(date +%s%N)
"$engine" kill --signal TERM "$container" >/dev/null
code=$("$engine" wait "$container")
[ "$code" = 0 ] || fail "SIGTERM ended it with $code instead of 0"
say "SIGTERM" "exit code 0 after $((($(date +%s%N) - started) / 1000000)) ms"
echo "The image is as it should be."
