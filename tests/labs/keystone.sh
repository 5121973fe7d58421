#!/usr/bin/env bash
# A real Keystone on loopback (SQLite, Fernet tokens) with a user for each role and scope.
#
#   keystone.sh start DIR          sets it up the first time, starts it, and waits until it answers
#   keystone.sh stop DIR           stops it by its process id
#   keystone.sh list DIR           names the personas
#   keystone.sh env DIR PERSONA    prints the OS_* settings of a persona, for `eval`
#
# KEYSTONE_PYTHON is the interpreter that has the packages of keystone.txt (default: python3). KEYSTONE_EXPIRATION is the
# life of tokens in seconds (default 3600); it takes effect at a start. DIR keeps the port, which is a free one that was
# taken at the first start, and personas.json with everybody's ids and passwords.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
die() { printf 'keystone.sh: %s\n' "$*" >&2; exit 2; }

[[ $# -ge 2 ]] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
verb=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
python=${KEYSTONE_PYTHON:-python3}
export OS_KEYSTONE_CONFIG_DIR=$dir/etc

# The process that the file names, if it is still this Keystone.
running() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$dir/keystone.db" && echo "$pid"
}

write_configuration() {
  mkdir -p "$dir/etc" "$dir/fernet" "$dir/credential" "$dir/log"
  chmod 700 "$dir/fernet" "$dir/credential"
  cat >"$dir/etc/keystone.conf" <<CONF
[DEFAULT]
public_endpoint = $url
log_file = $dir/log/keystone.log
[database]
connection = sqlite:///$dir/keystone.db
[token]
provider = fernet
expiration = ${KEYSTONE_EXPIRATION:-3600}
[fernet_tokens]
key_repository = $dir/fernet
[credential]
key_repository = $dir/credential
[identity]
password_hash_algorithm = bcrypt
password_hash_rounds = 4
[cache]
enabled = false
CONF
}

manage() {
  "$python" -W ignore -c 'from keystone.cmd.manage import main; main()' --config-file "$dir/etc/keystone.conf" "$@" \
    >>"$dir/log/setup.log" 2>&1
}

set_up() {
  [[ ! -e $dir/set-up ]] || return 0
  local user group
  user=$(id -un) group=$(id -gn)
  rm -f "$dir/keystone.db"
  manage db_sync || die "the database cannot be made; see $dir/log/setup.log"
  manage fernet_setup --keystone-user "$user" --keystone-group "$group"
  manage credential_setup --keystone-user "$user" --keystone-group "$group"
  manage bootstrap --bootstrap-username admin --bootstrap-password adminpw --bootstrap-project-name admin \
    --bootstrap-role-name admin --bootstrap-service-name keystone --bootstrap-region-id RegionOne \
    --bootstrap-public-url "$url/v3" --bootstrap-internal-url "$url/v3" --bootstrap-admin-url "$url/v3"
}

# Keystone's WSGI module reads sys.argv, so the arguments are taken away from it. The database's path is there to tell
# this process from another.
serve() {
  nohup "$python" -W ignore -c '
import sys
port = int(sys.argv[2])
sys.argv = ["keystone"]
from keystone.wsgi.api import application
import waitress
waitress.serve(application, host="127.0.0.1", port=port, threads=4)' "$dir/keystone.db" "$port" \
    >"$dir/log/serve.log" 2>&1 </dev/null &
  echo $! >"$dir/pid"
}

answers() { "$python" -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)' "$url/v3" 2>/dev/null; }

start() {
  if running >/dev/null; then return 0; fi
  "$python" -c 'import keystone, waitress' 2>/dev/null ||
    die "$python lacks the packages of $here/keystone.txt: install them, or set KEYSTONE_PYTHON"
  [[ -s $dir/port ]] || "$python" -c '
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])' >"$dir/port"
  port=$(cat "$dir/port")
  url=http://127.0.0.1:$port
  write_configuration
  set_up
  serve
  for _ in $(seq 1 120); do
    if answers; then
      [[ -e $dir/set-up ]] || "$python" "$here/keystone_personas.py" "$url" "$dir/personas.json"
      touch "$dir/set-up"
      return 0
    fi
    running >/dev/null || { tail -n 20 "$dir/log/serve.log" >&2; die "Keystone ended; see above"; }
    sleep 0.25
  done
  die "Keystone does not answer at $url; see $dir/log"
}

# Whether a process is gone with its sockets: its command line goes before they do.
ended() { ! grep '^State:' "/proc/$1/status" 2>/dev/null | grep -qv '[ZX] ('; }

stop() {
  local pid
  pid=$(running) || return 0
  # A stopped process takes the signal once it goes on.
  kill "$pid" && kill -CONT "$pid"
  for _ in $(seq 1 40); do
    ended "$pid" && break
    sleep 0.25
  done
  ended "$pid" || kill -KILL "$pid"
  until ended "$pid"; do sleep 0.1; done
  rm -f "$dir/pid"
}

case $verb in
  start) start ;;
  stop) stop ;;
  list) "$python" "$here/keystone_personas.py" list "$dir/personas.json" ;;
  env) "$python" "$here/keystone_personas.py" env "$dir/personas.json" "${3:?a persona}" ;;
  *) die "unknown verb $verb" ;;
esac
