#!/usr/bin/env bash
# Real sanlock daemons that pretend to be hosts on one shared volume: one image file, a loop device for each host.
#
#   sanlock.sh start DIR NAME...     a lockspace, and a daemon in it for each NAME; the first has host id 1, and so on
#   sanlock.sh join DIR NAME         starts the daemon of a host that has ended again; it rejoins under its own id
#   sanlock.sh kill DIR NAME         the host is gone: its daemon is killed
#   sanlock.sh pause|resume DIR NAME   its daemon is stopped, and goes on
#   sanlock.sh cut|mend DIR NAME     it loses its storage (its I/O fails), and has it back
#   sanlock.sh stop DIR              ends every daemon by its process id and gives the loop devices back
#
# The I/O timeout is 1 s: a host fails after 8 s and is dead after 68 s. There is NO watchdog, so that "dead" hosts of
# this lab may well be alive. The lockspace is lvm_lab; a daemon's socket is DIR/NAME/sanlock.sock. Needs root, sanlock,
# python3 and loop devices; listens on no network, and writes nothing outside of DIR.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
die() { printf 'sanlock.sh: %s\n' "$*" >&2; exit 2; }

[[ $# -ge 2 ]] || { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
verb=$1 io=1 space=lvm_lab
mkdir -p "$2"
dir=$(cd "$2" && pwd)
shift 2

[[ $(id -u) = 0 ]] || die "root is needed, for loop devices and for sanlock's locked memory"
for program in sanlock losetup python3; do
  [[ -n $(type -P "$program") ]] || die "$program is missing (on Debian: apt-get install sanlock mount python3)"
done

cli() { local name=$1; shift; SANLOCK_RUN_DIR=$dir/$name SANLOCK_PRIVILEGED=0 sanlock "$@"; }

# The daemon of a host, if it is still that one.
running() {
  local pid
  pid=$(cat "$dir/$1/pid" 2>/dev/null) || return 1
  tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qxF "SANLOCK_RUN_DIR=$dir/$1" && echo "$pid"
}

ended() { ! grep '^State:' "/proc/$1/status" 2>/dev/null | grep -qv '[ZX] ('; }

signal() { local pid; pid=$(running "$2") || die "$2 does not run"; kill "-$1" "$pid"; }

end() {
  local pid
  pid=$(running "$1") || return 0
  # A process that is stuck in the I/O of its device ends when that fails.
  kill -KILL "$pid"
  for _ in $(seq 1 100); do ended "$pid" && return 0; sleep 0.1; done
  die "process $pid does not end"
}

daemon() {
  local name=$1
  rm -f "$dir/$name/sanlock.sock" "$dir/$name/sanlock.pid"
  # No watchdog, no locked memory, no high priority, and names that outlive a restart.
  SANLOCK_RUN_DIR=$dir/$name SANLOCK_PRIVILEGED=0 nohup sanlock daemon -D -w 0 -h 0 -l 0 -U root -G root -e "$name" \
    >>"$dir/$name/log" 2>&1 </dev/null &
  echo $! >"$dir/$name/pid"
  for _ in $(seq 1 100); do
    if cli "$name" client status >/dev/null 2>&1; then return 0; fi
    running "$name" >/dev/null || { cat "$dir/$name/log" >&2; die "the daemon of $name ended"; }
    sleep 0.1
  done
  die "the daemon of $name does not answer; see $dir/$name/log"
}

add() { cli "$1" client add_lockspace -s "$space:$(cat "$dir/$1/id"):$(cat "$dir/$1/loop"):0" -o $io >>"$dir/$1/log" 2>&1; }

# What a cut takes away is all but the first sector, as LOOP_SET_STATUS64 has it; 0 gives it back.
limit() {
  python3 - "$(cat "$dir/$1/loop")" "$2" <<'PY'
import fcntl, os, struct, sys
device = os.open(sys.argv[1], os.O_RDONLY)
info = bytearray(232)
fcntl.ioctl(device, 0x4C05, info)  # LOOP_GET_STATUS64
struct.pack_into("<Q", info, 32, int(sys.argv[2]))  # lo_sizelimit
fcntl.ioctl(device, 0x4C04, bytes(info))  # LOOP_SET_STATUS64
PY
}

start() {
  local name id=0 joining=() pid
  [[ ! -e $dir/image ]] || die "$dir is in use: stop it first"
  truncate -s 4M "$dir/image"
  sanlock direct init -s "$space:0:$dir/image:0" -o $io >"$dir/log" 2>&1 || { cat "$dir/log" >&2; die "no lockspace"; }
  for name in "$@"; do
    id=$((id + 1))
    mkdir -p "$dir/$name"
    echo $id >"$dir/$name/id"
    losetup --find --show "$dir/image" >"$dir/$name/loop" || die "no loop device; is the loop module there?"
    daemon "$name"
  done
  for name in "$@"; do
    add "$name" &
    joining+=($!)
  done
  for pid in "${joining[@]}"; do wait "$pid" || { tail -n 5 "$dir"/*/log >&2; die "a host could not join"; }; done
  # A lockspace that is in use is not left when its lease is lost: its daemon stays and goes on telling what it believes.
  for name in "$@"; do cli "$name" client set_config -s $space -u 1 >>"$dir/$name/log" 2>&1; done
}

stop() {
  local folder name
  for folder in "$dir"/*/; do
    name=$(basename "$folder")
    [[ -e $folder/loop ]] || continue
    # Its I/O must not fail while it ends.
    limit "$name" 0 || true
    end "$name"
    losetup -d "$(cat "$folder/loop")" || true
    rm -f "$folder/loop"
  done
  rm -f "$dir/image"
}

name=${1:-}
case $verb in
  start) start "$@" ;;
  join) daemon "$name" && add "$name" ;;
  kill) end "$name" ;;
  pause) signal STOP "$name" ;;
  resume) signal CONT "$name" ;;
  cut) limit "$name" 512 ;;
  mend) limit "$name" 0 ;;
  stop) stop ;;
  *) die "unknown verb $verb" ;;
esac
