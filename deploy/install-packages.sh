#!/bin/sh
# Install what apt-packages.txt lists and is missing, where that is allowed (root and apt); elsewhere say so.
# Never fails for lack of permission: the tests that need the packages report themselves at the end.
set -eu

list=$(dirname "$0")/apt-packages.txt
missing=$(
    grep -v '^#' "$list" | while read -r package command; do
        command -v "$command" >/dev/null 2>&1 || echo "$package"
    done
)
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "Not installed, for want of root or apt: $(echo "$missing" | tr '\n' ' ')" >&2
    exit 0
fi

# Debian starts a service on installation; a test machine has no use for a second nginx on port 80.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true
# shellcheck disable=SC2086  # one word per package is what is wanted
if ! apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
    echo "apt-get could not install: $(echo "$missing" | tr '\n' ' ')" >&2
fi
