#!/bin/sh
# A private MariaDB on loopback, for tests.
#
#   mariadb.sh start DIR    makes a server in DIR, on a free port, and prints its admin URL
#   mariadb.sh url DIR      prints the admin URL
#   mariadb.sh stop DIR     stops it, by its process id; DIR may be deleted then
#
# It does not wait for the disk: what a killed process leaves is complete all the same, and tests are quicker. Do not
# measure against it. The server does not run as root: then it runs as the user `mysql` (the package makes it).
set -eu

usage() { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -eq 2 ] || usage
verb=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)

as_server() {
    if [ "$(id -u)" -eq 0 ]; then
        (cd / && setpriv --reuid mysql --regid mysql --init-groups "$@")
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
    [ "$(id -u)" -ne 0 ] || chown mysql: "$dir/server.key"
}

running() {
    [ -f "$dir/server.pid" ] && kill -0 "$(cat "$dir/server.pid")" 2>/dev/null
}

case $verb in
start)
    PATH=$PATH:/usr/sbin:/sbin
    if ! command -v mariadbd >/dev/null; then
        echo "installing mariadb-server" >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends mariadb-server >&2
    fi
    if running; then
        cat "$dir/url"
        exit 0
    fi
    [ "$(id -u)" -ne 0 ] || chown mysql: "$dir"
    # Temporary tables too: servers that are made at the same time would remove each other's.
    export TMPDIR="$dir"
    if [ ! -d "$dir/data/mysql" ]; then
        as_server mariadb-install-db --no-defaults --datadir="$dir/data" --auth-root-authentication-method=normal \
            --skip-test-db >"$dir/install.log" 2>&1 || { cat "$dir/install.log" >&2; exit 1; }
        as_server mariadbd --no-defaults --datadir="$dir/data" --bootstrap >"$dir/bootstrap.log" 2>&1 <<'SQL'
FLUSH PRIVILEGES;
CREATE USER apelora@'127.0.0.1';
GRANT ALL ON *.* TO apelora@'127.0.0.1';
SQL
    fi
    port=$(port)
    certificate
    as_server mariadbd --no-defaults --datadir="$dir/data" --bind-address=127.0.0.1 --port="$port" \
        --socket="$dir/server.sock" --pid-file="$dir/server.pid" --max-connections=300 --ssl-cert="$dir/server.crt" --ssl-key="$dir/server.key" --skip-name-resolve \
        --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=2 --innodb-flush-method=nosync \
        --innodb-doublewrite=0 >"$dir/server.log" 2>&1 &
    for _ in $(seq 600); do
        if running && mariadb-admin --no-defaults --protocol=tcp -h 127.0.0.1 -P "$port" -u apelora ping >/dev/null 2>&1; then
            echo "mysql://apelora@127.0.0.1:$port/mysql" >"$dir/url"
            cat "$dir/url"
            exit 0
        fi
        sleep 0.1
    done
    cat "$dir/server.log" >&2
    exit 1
    ;;
url) cat "$dir/url" ;;
stop)
    running || exit 0
    pid=$(cat "$dir/server.pid")
    kill "$pid"
    for _ in $(seq 300); do
        kill -0 "$pid" 2>/dev/null || exit 0
        sleep 0.1
    done
    kill -KILL "$pid"
    ;;
*) usage ;;
esac
