#!/bin/sh
# Start nginx and reload it when a replica has come (`--scale`, a container replaced), since nginx resolves names
# only when it reads its configuration. A replica that has gone is no reason: nginx goes around it by itself, and
# a reload closes the callers' idle connections.
set -eu

name=${REPLICAS_NAME:-budgetrec}
every=${REPLICAS_EVERY:-2}

addresses() {
    getent ahosts "$name" | awk '{print $1}' | sort -u | tr '\n' ' '
}

# nginx refuses to start while the name is unknown.
until [ -n "$(addresses)" ]; do
    sleep "$every"
done

follow() {
    known=" $(addresses)"
    while sleep "$every"; do
        now=$(addresses)
        for address in $now; do
            case $known in
            *" $address "*) ;;
            *)
                echo "follow-replicas: $name is now $now" >&2
                nginx -p /tmp/ -c /etc/budgetrec/nginx.conf -s reload && known=" $now"
                break
                ;;
            esac
        done
    done
}
follow &

# nginx becomes process 1 and gets the signals.
exec nginx -p /tmp/ -c /etc/budgetrec/nginx.conf -g 'daemon off;'
