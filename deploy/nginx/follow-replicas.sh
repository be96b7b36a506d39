#!/bin/sh
# Start nginx and reload it whenever the replicas' addresses change (`--scale`, a container replaced).
# nginx resolves names only when it reads its configuration; this looks twice as often as DNS may be stale.
set -eu

name=${REPLICAS_NAME:-budgetrec}
every=${REPLICAS_EVERY:-2}

addresses() {
    getent ahosts "$name" | awk '{print $1}' | sort -u
}

# nginx refuses to start while the name is unknown.
until [ -n "$(addresses)" ]; do
    sleep "$every"
done

follow() {
    known=$(addresses)
    while sleep "$every"; do
        now=$(addresses)
        if [ -n "$now" ] && [ "$now" != "$known" ]; then
            echo "follow-replicas: $name is now $(echo "$now" | tr '\n' ' ')" >&2
            nginx -p /tmp/ -c /etc/budgetrec/nginx.conf -s reload && known=$now
        fi
    done
}
follow &

# nginx becomes process 1 and gets the signals.
exec nginx -p /tmp/ -c /etc/budgetrec/nginx.conf -g 'daemon off;'
