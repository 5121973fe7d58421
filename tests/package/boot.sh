#!/usr/bin/env bash
# Boots the Debian system in a folder with its own systemd, in namespaces of its own: no network but its loopback, no
# process but its own, nothing mounted that is still there afterwards.
#
#   boot.sh start ROOT        returns when it is up
#   boot.sh run ROOT COMMAND...
#   boot.sh stop ROOT         ends it by its process id
#
# Needs root. What it is told by is in ROOT.boot/.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
verb=$1 root=$(realpath "$2")
state=$root.boot
shift 2

# The control groups that systemd keeps its processes in: an own branch of each, so that it makes nothing beside it.
branches() {
  local mount
  awk '$3 == "cgroup2" || ($3 == "cgroup" && $4 ~ /name=systemd/) {print $2}' /proc/mounts | while read -r mount; do
    echo "$mount/apelora-package-$(basename "$(dirname "$root")")"
  done
}

inside() {
  local pid
  pid=$(cat "$state/pid")
  exec nsenter --target "$pid" --mount --pid --net --ipc --uts --cgroup --root \
    env -i -C / PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root "$@"
}

start() {
  local branch
  mkdir -p "$state"
  (
    for branch in $(branches); do
      mkdir -p "$branch"
      echo "$BASHPID" >"$branch/cgroup.procs"
    done
    # shellcheck disable=SC2016 # the inner shell's
    exec setsid unshare --mount --pid --fork --kill-child --ipc --uts --net --cgroup bash -euc '
      root=$0
      mount --make-rprivate /
      mount --bind "$root" "$root"
      mount -t proc proc "$root/proc"
      # A boot changes nothing that belongs to the whole host.
      mount --bind "$root/proc/sys" "$root/proc/sys"
      mount -o remount,bind,ro "$root/proc/sys"
      mount -t sysfs -o ro sysfs "$root/sys"
      mount -t tmpfs -o mode=755 tmpfs "$root/run"
      if [[ $(stat -f -c %T /sys/fs/cgroup) = cgroup2fs ]]; then
        mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
      else
        mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
        mkdir "$root/sys/fs/cgroup/systemd"
        mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
      fi
      exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /lib/systemd/systemd
    ' "$root" </dev/null >"$state/log" 2>&1
  ) &
  # The one process below unshare is systemd, as seen from here.
  local unshare=$! pid=
  echo "$unshare" >"$state/unshare"
  for _ in $(seq 1 600); do
    pid=$(tr -d ' ' <"/proc/$unshare/task/$unshare/children" 2>/dev/null) || true
    if [[ -n $pid && $(cat "/proc/$pid/comm" 2>/dev/null) = systemd ]]; then
      echo "$pid" >"$state/pid"
      case $( (inside systemctl is-system-running) 2>/dev/null) in
        running | degraded) return 0 ;;
      esac
    fi
    kill -0 "$unshare" 2>/dev/null || break
    sleep 0.2
  done
  cat "$state/log"
  echo "systemd does not come up"
  return 1
}

stop() {
  local branch unshare
  unshare=$(cat "$state/unshare" 2>/dev/null) || return 0
  # Its end ends systemd, and that everything in its process namespace.
  kill -KILL "$unshare" 2>/dev/null || true
  for _ in $(seq 1 100); do
    for branch in $(branches); do
      [[ ! -d $branch ]] || find "$branch" -depth -type d -exec rmdir {} \; 2>/dev/null || true
    done
    # shellcheck disable=SC2046 # one word for each
    [[ -n $(ls -d $(branches) 2>/dev/null) ]] || break
    sleep 0.1
  done
  rm -rf "$state"
}

case $verb in
  start) start ;;
  run) inside "$@" ;;
  stop) stop ;;
  *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2 && exit 2 ;;
esac
