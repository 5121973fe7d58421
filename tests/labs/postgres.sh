#!/bin/sh
# A private PostgreSQL on loopback, for tests.
#
#   postgres.sh start DIR   makes a server in DIR, on a free port, and prints its admin URL
#   postgres.sh url DIR     prints the admin URL
#   postgres.sh stop DIR    stops it, by its process id; DIR may be deleted then
#
# It does not wait for the disk: what a killed process leaves is complete all the same, and tests are quicker. Do not
# measure against it. The server refuses to run as root: then it runs as the user `postgres` (the package makes it).
set -eu

usage() { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -eq 2 ] || usage
verb=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)

find_bin() {
    for bin in /usr/lib/postgresql/*/bin; do
        [ -x "$bin/initdb" ] && found=$bin
    done
    echo "${found:-}"
}

as_server() {
    if [ "$(id -u)" -eq 0 ]; then
        (cd / && setpriv --reuid postgres --regid postgres --init-groups "$@")
    else
        "$@"
    fi
}

# The port of the first start, so that a server that comes back is found where it was.
port() {
    [ -f "$dir/port" ] || python3 -c 'import socket
with socket.socket() as s:
    s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' >"$dir/port"
    cat "$dir/port"
}

# A certificate of its own, so that TLS can be asked for.
certificate() {
    [ -f "$dir/server.crt" ] && return
    command -v openssl >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends openssl >&2
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=127.0.0.1 \
        -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
        -keyout "$dir/server.key" -out "$dir/server.crt" 2>/dev/null
    chmod 600 "$dir/server.key"
    [ "$(id -u)" -ne 0 ] || chown postgres: "$dir/server.key"
}

case $verb in
start)
    bin=$(find_bin)
    if [ -z "$bin" ]; then
        echo "installing postgresql" >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql >&2
        bin=$(find_bin)
    fi
    if [ -f "$dir/data/postmaster.pid" ] && kill -0 "$(head -1 "$dir/data/postmaster.pid")" 2>/dev/null; then
        cat "$dir/url"
        exit 0
    fi
    [ "$(id -u)" -ne 0 ] || chown postgres: "$dir"
    if [ ! -d "$dir/data" ]; then
        as_server "$bin/initdb" -D "$dir/data" -U apelora --auth trust -E UTF8 --locale C.UTF-8 >"$dir/initdb.log" 2>&1
    fi
    port=$(port)
    certificate
    as_server "$bin/pg_ctl" -D "$dir/data" -l "$dir/server.log" -w -t 60 start \
        -o "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories='' -c max_connections=300 -c ssl=on -c ssl_cert_file=$dir/server.crt -c ssl_key_file=$dir/server.key -c fsync=off -c full_page_writes=off" >"$dir/start.log" 2>&1 ||
        { cat "$dir/server.log" >&2; exit 1; }
    echo "postgresql://apelora@127.0.0.1:$port/postgres" >"$dir/url"
    cat "$dir/url"
    ;;
url) cat "$dir/url" ;;
stop)
    pid=$(head -1 "$dir/data/postmaster.pid" 2>/dev/null || true)
    [ -n "$pid" ] || exit 0
    # Fast shutdown.
    kill -INT "$pid" 2>/dev/null || exit 0
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || exit 0
        sleep 0.1
    done
    kill -QUIT "$pid"
    ;;
*) usage ;;
esac
