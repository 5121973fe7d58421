#!/bin/bash
# Three-member Incus cluster on one machine, for tests. Needs root on Debian 12
# (or anything with incusd 6.0 installed already).
#
#   incus-cluster.sh start [WORKDIR]           build (first time) or resume the cluster
#   incus-cluster.sh stop [WORKDIR]            stop everything, remove namespaces, keep the data
#   incus-cluster.sh destroy [WORKDIR]         stop and delete WORKDIR's contents
#   incus-cluster.sh kill MEMBER [WORKDIR]     SIGKILL that member's daemon
#   incus-cluster.sh freeze|thaw MEMBER        SIGSTOP / SIGCONT it
#   incus-cluster.sh poweroff MEMBER [WORKDIR] what a BMC does: daemon and its instances gone at once
#   incus-cluster.sh up MEMBER [WORKDIR]       start that member's daemon again
#   incus-cluster.sh cut MEMBER [WORKDIR] [cluster|mgmt|all]   silent network drop (default: cluster)
#   incus-cluster.sh heal MEMBER [WORKDIR]     undo every cut of MEMBER, start/thaw its daemon
#   incus-cluster.sh status [WORKDIR]          one JSON line per member: what that member answers
#   incus-cluster.sh api MEMBER PATH [WORKDIR] GET over the member's unix socket
#   incus-cluster.sh lock ex|sh [WORKDIR]      which locks the shared pool grants from now on
#   incus-cluster.sh image [WORKDIR]           import a 2 MB container image under alias "tiny"
#   incus-cluster.sh env [WORKDIR]             print client settings (addresses, cert, key, CA file)
#
# Pools: "local" (dir) and "shared" (Incus's lvmcluster driver over a stand-in for LVM, so
# that instances can be moved off a dead member; set INCUS_LAB_SHARED=0 to leave it out).
# A volume held by a member recorded as powered off stays locked INCUS_LAB_LEASE_SECS (20); with
# `lock sh` the pool grants what Incus 6.0.4 asks for, shared locks, which stop nothing.
# An instance with the configuration that `env` prints as INCUS_LAB_WITNESS counts, in a file of its own root volume, and
# appends every number to WORKDIR/witness/NAME, outside of any volume: "start-id member number seconds".
# MEMBER is m1, m2 or m3. WORKDIR defaults to $INCUS_LAB_DIR, then /tmp/incus-lab; keep it
# short (unix socket paths). Networks: 10.118.1.0/24 between members ("cluster"),
# 10.118.2.0/24 for clients ("mgmt"); the host is 10.118.2.1. Both exist only in this
# machine's own namespaces, nothing is routed out. For a second lab beside the first set
# INCUS_LAB_TAG, INCUS_LAB_NET1 and INCUS_LAB_NET2 (prefixes of three numbers) at its start; later
# calls read them, the threshold and the lease from WORKDIR/lab.env.
set -u
set -o pipefail

CMD="${1:-}"; [ $# -gt 0 ] && shift
MEMBER=""
case "$CMD" in
  kill|freeze|thaw|poweroff|up|cut|heal|api) MEMBER="${1:-}"; [ $# -gt 0 ] && shift
    case "$MEMBER" in m1|m2|m3) ;; *) echo "MEMBER must be m1, m2 or m3" >&2; exit 2;; esac;;
esac
MODE=""
if [ "$CMD" = lock ]; then MODE="${1:-}"; [ $# -gt 0 ] && shift
  case "$MODE" in ex|sh) ;; *) echo "lock is ex or sh" >&2; exit 2;; esac
fi
APIPATH=""
if [ "$CMD" = api ]; then APIPATH="${1:-}"; [ $# -gt 0 ] && shift; fi
WORK="${INCUS_LAB_DIR:-/tmp/incus-lab}"
case "${1:-}" in cluster|mgmt|all|"") ;; *) WORK="$1"; shift;; esac
WHICH="${1:-cluster}"

MEMBERS="m1 m2 m3"
if [ -r "$WORK/lab.env" ]; then
  # shellcheck source=/dev/null
  . "$WORK/lab.env"
fi
THRESHOLD="${INCUS_LAB_OFFLINE_THRESHOLD:-11}"    # lowest value Incus accepts
TAG="${INCUS_LAB_TAG:-il}"                        # prefix of namespaces and links
N1="${INCUS_LAB_NET1:-10.118.1}"; N2="${INCUS_LAB_NET2:-10.118.2}"
SHARED="${INCUS_LAB_SHARED:-1}"
SHIM="$(cd "$(dirname "$0")" && pwd)/incus-storage.py"
INCUSD=""
say() { echo "[$(date +%H:%M:%S)] $*" >&2; }
die() { echo "error: $*" >&2; exit 1; }
idx() { echo "${1#m}"; }
ns() { echo "$TAG-$1"; }
dir() { echo "$WORK/$1"; }
sock() { echo "$WORK/$1/unix.socket"; }
pidfile() { echo "$WORK/$1.pid"; }
in_ns() { local n; n=$(ns "$1"); shift; ip netns exec "$n" "$@"; }
# The client itself dials the cluster when joining, so it runs inside the member's namespace.
inc() { local m=$1; shift; in_ns "$m" env INCUS_CONF="$WORK/client-conf" INCUS_DIR="$(dir "$m")" incus "$@"; }
api() { curl -s -m "${INCUS_LAB_TIMEOUT:-20}" --unix-socket "$(sock "$1")" "${@:3}" "http://incus$2"; }

alive() { # is the recorded pid still that member's daemon?
  local p; p=$(cat "$(pidfile "$1")" 2>/dev/null) || return 1
  [ -n "$p" ] && [ -r "/proc/$p/environ" ] && { tr '\0' '\n' <"/proc/$p/environ"; } 2>/dev/null | grep -qx "INCUS_DIR=$(dir "$1")"
}

# Debian 12 has Incus in its backports only. The source is the mirror that apt already uses, named to this one call: the
# machine's own list of sources stays as it is.
backports() {
  local uri parts="$WORK/apt"
  # shellcheck disable=SC2016 # apt-get replaces it
  uri=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' 'Created-By: Packages' 2>/dev/null | head -1)
  [ -n "$uri" ] || uri=$(awk '/^URIs:/ {print $2; exit} /^deb / {for (i = 2; i <= NF; i++) if ($i ~ /^http/) {print $i; exit}}' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null)
  [ -n "$uri" ] || die "apt has no source to derive bookworm-backports from"
  mkdir -p "$parts"
  cp /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list "$parts/" 2>/dev/null
  printf 'Types: deb\nURIs: %s\nSuites: bookworm-backports\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
    "$uri" >"$parts/apelora-backports.sources"
  APT=(apt-get -q -o "Dir::Etc::sourceparts=$parts" -o DPkg::Lock::Timeout=300)
}
installed() {
  find_incusd && command -v incus >/dev/null && command -v jq >/dev/null && command -v curl >/dev/null && [ -x /bin/busybox ]
}
install_packages() {
  installed && return 0
  command -v apt-get >/dev/null || die "incusd is missing and this is no Debian"
  # Labs that start beside each other: one installs, and apt waits for nobody when it updates its lists.
  exec 9>"${TMPDIR:-/tmp}/apelora-incus-install.lock"
  flock -w 600 9 || die "another lab installs Incus and does not end"
  if installed; then exec 9>&-; return 0; fi
  local APT; backports
  "${APT[@]}" update >"$WORK/apt.log" 2>&1
  # The package wants to start its service; policy-rc.d keeps it from doing so.
  local made=""
  if [ ! -e /usr/sbin/policy-rc.d ]; then printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; made=1; fi
  DEBIAN_FRONTEND=noninteractive "${APT[@]}" install -y --no-install-recommends \
    -t bookworm-backports incus-base incus-client busybox-static iproute2 jq curl xz-utils openssl procps e2fsprogs python3 >>"$WORK/apt.log" 2>&1
  local rc=$?
  [ -n "$made" ] && rm -f /usr/sbin/policy-rc.d
  exec 9>&-
  [ $rc = 0 ] || { tail -5 "$WORK/apt.log" >&2; die "apt-get failed"; }
  find_incusd || die "no incusd found after installing"
}
find_incusd() {
  local c
  for c in /usr/libexec/incus/incusd /usr/lib/incus/incusd /opt/incus/bin/incusd "$(command -v incusd 2>/dev/null)"; do
    [ -n "$c" ] && [ -x "$c" ] && { INCUSD=$c; return 0; }
  done; return 1
}

net_up() {
  local hub="$TAG-hub" m i
  ip netns list | grep -qw "$hub" || ip netns add "$hub" || die "cannot create a network namespace"
  in_ns hub ip link set lo up
  for b in cbr mbr; do
    in_ns hub ip link show $b >/dev/null 2>&1 || in_ns hub ip link add $b type bridge forward_delay 0 stp_state 0
    in_ns hub ip link set $b up
  done
  for m in $MEMBERS; do
    i=$(idx "$m")
    ip netns list | grep -qw "$(ns "$m")" || ip netns add "$(ns "$m")"
    in_ns "$m" ip link set lo up
    in_ns "$m" ip link show cl0 >/dev/null 2>&1 || {
      ip link add "$TAG-c$i" netns "$hub" type veth peer name cl0 netns "$(ns "$m")"
      in_ns "$m" ip addr add "$N1.1$i/24" dev cl0; in_ns "$m" ip link set cl0 up
      in_ns hub ip link set "$TAG-c$i" master cbr up; }
    in_ns "$m" ip link show mg0 >/dev/null 2>&1 || {
      ip link add "$TAG-m$i" netns "$hub" type veth peer name mg0 netns "$(ns "$m")"
      in_ns "$m" ip addr add "$N2.1$i/24" dev mg0; in_ns "$m" ip link set mg0 up
      in_ns hub ip link set "$TAG-m$i" master mbr up; }
  done
  ip link show "$TAG-host" >/dev/null 2>&1 || {
    ip link add "$TAG-host" type veth peer name "$TAG-h" netns "$hub"
    ip addr add "$N2.1/24" dev "$TAG-host"; ip link set "$TAG-host" up
    in_ns hub ip link set "$TAG-h" master mbr up; }
}
net_down() {
  local m
  ip link del "$TAG-host" 2>/dev/null
  for m in $MEMBERS hub; do ip netns del "$(ns "$m")" 2>/dev/null; done
  return 0
}
cgroups() { # liblxc wants a mounted hierarchy; machines without any get cgroup2
  grep -q cgroup /proc/mounts || mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
  return 0
}

daemon_up() { # start the daemon of one member and wait for its socket to answer
  local m=$1 d p n
  alive "$m" && return 0
  d=$(dir "$m"); mkdir -p "$d"; chmod 711 "$d"
  if [ -e "$WORK/san/dead/$m" ]; then INCUS_DIR="$d" INCUS_LAB_SAN="$WORK/san" "$WORK/shim/lab-boot"; fi
  rm -f "$(sock "$m")"
  # A restarted daemon goes back into the mount namespace its running instances still use.
  local mon run
  mon=$(pgrep -f -- "^\[lxc monitor\] $d/" 2>/dev/null | head -1)
  if [ -n "$mon" ]; then
    run=(nsenter "--mount=/proc/$mon/ns/mnt" "--net=/run/netns/$(ns "$m")" sh -c 'exec "$@"' sh)
  else
    # shellcheck disable=SC2016 # for the shell that is started
    run=(ip netns exec "$(ns "$m")" sh -c \
      'd=$1; m=$2; shift 2; mkdir -p "$d" && mount -t tmpfs none "$d" && echo "$m" >"$d/member" && exec "$@"' \
      sh "/dev/${TAG}vg" "$m")
  fi
  ( cd /; umask 0022
    exec env -i PATH="$WORK/shim:$PATH" HOME=/root LANG=C.UTF-8 INCUS_DIR="$d" INCUS_LAB_SAN="$WORK/san" \
      INCUS_LAB_LEASE_SECS="${INCUS_LAB_LEASE_SECS:-20}" \
      setsid "${run[@]}" "$INCUSD" --logfile "$WORK/$m.log" ${INCUS_LAB_DEBUG:+--debug} \
      </dev/null >>"$WORK/$m.out" 2>&1 ) &
  p=$!
  disown "$p" 2>/dev/null
  echo "$p" >"$(pidfile "$m")"
  [ "${2:-}" = nowait ] && return 0
  wait_up "$m" "${2:-60}"
}
wait_up() {
  local n m=$1
  for n in $(seq 1 $(( ${2:-60} * 5 ))); do
    [ "$(INCUS_LAB_TIMEOUT=3 api "$m" /1.0 2>/dev/null | jq -r .status_code 2>/dev/null)" = 200 ] && return 0
    alive "$m" || [ "$n" -lt 10 ] || { tail -3 "$WORK/$m.out" >&2; return 1; }
    sleep 0.2
  done
  return 1
}
clustered() { [ -e "$(dir "$1")/cluster.crt" ]; }

bootstrap() {
  local m i t n
  clustered m1 || {
    say "m1: bootstrap"
    # cluster.offline_threshold only after clustering: before it, 6.0.4 drops the connection.
    inc m1 admin init --preseed >/dev/null 2>&1 <<PRE || die "bootstrap failed"
config:
  core.https_address: $N2.11:8443
  cluster.https_address: $N1.11:8443
  images.auto_update_interval: "0"
storage_pools:
- name: local
  driver: dir
profiles:
- name: default
  devices:
    root: {type: disk, path: /, pool: local}
cluster:
  enabled: true
  server_name: m1
PRE
    inc m1 config set cluster.offline_threshold "$THRESHOLD" || die "offline threshold refused"
  }
  for m in m2 m3; do
    clustered "$m" && continue
    i=$(idx "$m")
    say "$m: join"
    for n in 1 2 3; do
      t=$(inc m1 cluster add "$m" --quiet 2>/dev/null | tail -1)
      [ -n "$t" ] && inc "$m" admin init --preseed >"$WORK/join.log" 2>&1 <<PRE && break
cluster:
  enabled: true
  server_name: $m
  server_address: $N1.1$i:8443
  cluster_token: $t
  member_config:
  - {entity: storage-pool, name: local, key: source, value: ""}
PRE
      # (a failed attempt falls through to here)
      [ "$n" = 3 ] && { tail -3 "$WORK/join.log" >&2; die "$m could not join"; }
      sleep 1
    done
    # Joining makes the cluster address the only listener. Changing core.https_address on the
    # running daemon would close that one, so set it and restart the daemon: then both listen.
    inc "$m" config set core.https_address "$N2.1$i:8443" --target "$m" || die "$m: client address"
    kill -KILL "$(cat "$(pidfile "$m")")"; for n in $(seq 1 50); do alive "$m" || break; sleep 0.1; done
    daemon_up "$m" 60 || die "$m did not come back"
  done
}
shim_links() {
  local t; [ "$SHARED" = 1 ] || return 0
  mkdir -p "$WORK/shim" "$WORK/san/dead"
  for t in lvm lvs vgs pvs lvcreate lvchange lvremove lvrename lvresize lvextend vgcreate vgchange lvmlockctl sanlock lab-poweroff lab-boot; do
    ln -sf "$SHIM" "$WORK/shim/$t"
  done
}
shared_pool() {
  local m; [ "$SHARED" = 1 ] || return 0
  inc m1 storage show shared >/dev/null 2>&1 && return 0
  INCUS_LAB_SAN="$WORK/san" "$WORK/shim/vgcreate" "${TAG}vg" none || die "no volume group"
  for m in $MEMBERS; do inc m1 storage create shared lvmcluster "source=${TAG}vg" --target "$m" >/dev/null || die "pool on $m"; done
  inc m1 storage create shared lvmcluster volume.size=16MiB >/dev/null || die "pool creation failed"
}
kill_instances() { # MEMBER: take its containers away the way a power cut does
  local p c
  for p in $(pgrep -f -- "^\[lxc monitor\] $(dir "$1")/" 2>/dev/null); do
    for c in $(pgrep -P "$p" 2>/dev/null); do kill -KILL "$c" 2>/dev/null; done
    kill -KILL "$p" 2>/dev/null
  done
  # What was killed is gone a moment later, and its file systems with it.
  local n; for n in $(seq 1 100); do pgrep -f -- "^\[lxc monitor\] $(dir "$1")/" >/dev/null 2>&1 || break; sleep 0.05; done
  [ -x "$WORK/shim/lab-poweroff" ] && INCUS_DIR="$(dir "$1")" INCUS_LAB_SAN="$WORK/san" "$WORK/shim/lab-poweroff"
  return 0
}
client_cert() { # an unrestricted client certificate plus the file to pin the servers with
  local c="$WORK/client"; mkdir -p "$c"
  [ -e "$c/client.crt" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -days 3650 \
      -subj /CN=lab-supervisor -keyout "$c/client.key" -out "$c/client.crt" 2>/dev/null
  cp "$(dir m1)/cluster.crt" "$c/cluster.crt"
  inc m1 config trust list -f csv 2>/dev/null | grep -q lab-supervisor \
    || inc m1 config trust add-certificate "$c/client.crt" --name lab-supervisor >/dev/null || die "trust add failed"
}
make_image() {
  inc m1 image alias list -f csv 2>/dev/null | grep -q '^tiny,' && return 0
  local w="$WORK/image"; rm -rf "$w"; mkdir -p "$w/rootfs/bin" "$w/rootfs/sbin" "$w/rootfs/proc" "$w/rootfs/sys" \
    "$w/rootfs/dev" "$w/rootfs/tmp" "$w/rootfs/etc" "$w/rootfs/root" "$w/rootfs/run" "$w/rootfs/var"
  cp /bin/busybox "$w/rootfs/bin/busybox"
  for a in sh ls cat sleep mount ps kill echo date hostname ip ping poweroff reboot halt touch; do ln -s busybox "$w/rootfs/bin/$a"; done
  cat >"$w/rootfs/sbin/init" <<'INIT'
#!/bin/sh
# Ends at once on SIGPWR (Incus's clean shutdown request to a container's init).
trap 'exit 0' PWR TERM
echo up >/run/state
if [ -d /witness ]; then
  read -r start </proc/sys/kernel/random/uuid
  read -r member </member
  n=0
  [ ! -s /counter ] || read -r n </counter
  # First its own storage, then the witness: what is witnessed was stored.
  while n=$((n + 1)) && echo "$n" >/counter.new && busybox sync /counter.new && busybox mv /counter.new /counter; do
    read -r seconds idle </proc/uptime
    echo "$start $member $n $seconds" >>/witness/$(hostname)
    sleep 0.2 & wait $!
  done
  echo "$start $member failed 0" >>/witness/$(hostname)
fi
while :; do sleep 1 & wait $!; done
INIT
  chmod 755 "$w/rootfs/sbin/init"
  echo 'root:x:0:0:root:/root:/bin/sh' >"$w/rootfs/etc/passwd"; echo 'root:x:0:' >"$w/rootfs/etc/group"
  printf 'architecture: x86_64\ncreation_date: 1700000000\nproperties:\n  description: tiny lab image\n  os: busybox\n' >"$w/metadata.yaml"
  tar -C "$w" -cJf "$WORK/tiny.tar.xz" metadata.yaml rootfs && rm -rf "$w"
  inc m1 image import "$WORK/tiny.tar.xz" --alias tiny >/dev/null || die "image import failed"
}

start() {
  [ "$(id -u)" = 0 ] || die "must run as root"
  mkdir -p "$WORK" "$WORK/client-conf"; chmod 711 "$WORK"
  [ ${#WORK} -lt 70 ] || die "WORKDIR is too long for unix sockets"
  [ -e "$WORK/lab.env" ] || printf '%s\n' "INCUS_LAB_TAG=$TAG" "INCUS_LAB_NET1=$N1" "INCUS_LAB_NET2=$N2" \
    "INCUS_LAB_OFFLINE_THRESHOLD=$THRESHOLD" "INCUS_LAB_SHARED=$SHARED" "INCUS_LAB_LEASE_SECS=${INCUS_LAB_LEASE_SECS:-20}" >"$WORK/lab.env"
  mkdir -p "$WORK/witness"; chmod 777 "$WORK/witness"
  install_packages; cgroups; net_up; shim_links
  local m
  if clustered m3; then
    # A clustered member answers only once a majority is up: start all, then wait.
    for m in $MEMBERS; do daemon_up "$m" nowait; done
    for m in $MEMBERS; do wait_up "$m" 90 || die "$m did not come up; see $WORK/$m.log"; done
  else
    for m in $MEMBERS; do daemon_up "$m" 60 || die "$m did not come up; see $WORK/$m.log"; done
    bootstrap
  fi
  client_cert
  shared_pool
  local n
  for n in $(seq 1 150); do
    [ "$(api m1 '/1.0/cluster/members?recursion=1' | jq '[.metadata[]?|select(.status=="Online")]|length' 2>/dev/null)" = 3 ] && { say "3 members Online"; return 0; }
    sleep 0.4
  done
  die "members are not all Online after 60 s"
}
stop_daemons() {
  local m p n
  for m in $MEMBERS; do alive "$m" && kill -CONT "$(cat "$(pidfile "$m")")" 2>/dev/null; done
  # Instances outlive a killed daemon on purpose; stop those of this work dir first.
  for m in $MEMBERS; do kill_instances "$m"; done
  for m in $MEMBERS; do alive "$m" && kill -KILL "$(cat "$(pidfile "$m")")" 2>/dev/null; done
  for m in $MEMBERS; do
    for n in $(seq 1 25); do alive "$m" || break; sleep 0.1; done
    rm -f "$(pidfile "$m")"
  done
  for n in $(seq 1 30); do pgrep -f -- "^\[lxc monitor\] $WORK/" >/dev/null 2>&1 || break; sleep 0.1; done
  for p in $(pgrep -f -- "^\[lxc monitor\] $WORK/" 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done
  for n in $(losetup -ln -O NAME,BACK-FILE 2>/dev/null | awk -v w="$WORK/san/" 'index($2, w) == 1 {print $1}'); do losetup -d "$n" 2>/dev/null; done
  rmdir "/dev/${TAG}vg" 2>/dev/null
  rm -f "$WORK"/san/*/*.lease "$WORK"/san/dead/* 2>/dev/null
  grep -o " $WORK/m[123]/[^ ]*" /proc/mounts | tac | while read -r n; do umount -l "$n" 2>/dev/null; done
}

case "$CMD" in
  start) start;;
  image) find_incusd; make_image;;
  stop) stop_daemons; net_down;;
  destroy) [ -d "$WORK" ] || exit 0; [ -e "$WORK/m1" ] || die "$WORK is no lab"
    stop_daemons; net_down; rm -rf "${WORK:?}"/m1 "$WORK"/lab.env "$WORK"/witness "$WORK"/apt "$WORK"/image "$WORK"/m2 "$WORK"/m3 "$WORK"/*.log "$WORK"/*.out "$WORK"/client "$WORK"/client-conf "$WORK"/shim "$WORK"/san "$WORK"/m?.pid "$WORK"/tiny.tar.xz; rmdir "$WORK" 2>/dev/null; exit 0;;
  kill) alive "$MEMBER" || die "$MEMBER is not running"; kill -KILL "$(cat "$(pidfile "$MEMBER")")"; rm -f "$(pidfile "$MEMBER")";;
  poweroff) alive "$MEMBER" && kill -KILL "$(cat "$(pidfile "$MEMBER")")"
    kill_instances "$MEMBER"
    for n in $(seq 1 100); do alive "$MEMBER" || break; sleep 0.05; done
    rm -f "$(pidfile "$MEMBER")"; mkdir -p "$WORK/san/dead"; date +%s.%N >"$WORK/san/dead/$MEMBER";;
  freeze) alive "$MEMBER" || die "$MEMBER is not running"; kill -STOP "$(cat "$(pidfile "$MEMBER")")";;
  thaw) alive "$MEMBER" || die "$MEMBER is not running"; kill -CONT "$(cat "$(pidfile "$MEMBER")")";;
  up) find_incusd || die "no incusd"; daemon_up "$MEMBER" "${INCUS_LAB_UP_TIMEOUT:-60}" || die "$MEMBER does not answer (majority down?)";;
  cut) i=$(idx "$MEMBER")
    case "$WHICH" in cluster|all) in_ns hub ip link set "$TAG-c$i" nomaster;; esac
    case "$WHICH" in mgmt|all) in_ns hub ip link set "$TAG-m$i" nomaster;; esac; true;;
  heal) i=$(idx "$MEMBER"); find_incusd
    in_ns hub ip link set "$TAG-c$i" master cbr; in_ns hub ip link set "$TAG-m$i" master mbr
    if alive "$MEMBER"; then kill -CONT "$(cat "$(pidfile "$MEMBER")")"; else daemon_up "$MEMBER" nowait; fi;;
  status) for m in $MEMBERS; do
      if alive "$m"; then st=$(awk '/^State/{print $2}' "/proc/$(cat "$(pidfile "$m")")/status"); else st=dead; fi
      INCUS_LAB_TIMEOUT=5 api "$m" '/1.0/cluster/members?recursion=1' 2>/dev/null \
        | jq -c --arg m "$m" --arg st "$st" '{asked:$m,process:$st,code:(.error_code // .status_code),error:.error,sees:[.metadata[]?|{(.server_name):.status}]|add}' 2>/dev/null \
        | grep . || jq -nc --arg m "$m" --arg st "$st" '{asked:$m,process:$st,code:null,error:"no answer"}'
    done;;
  api) api "$MEMBER" "$APIPATH"; echo;;
  env) for m in $MEMBERS; do echo "INCUS_LAB_${m^^}=https://$N2.1$(idx "$m"):8443"; done
    echo "INCUS_LAB_WITNESS='lxc.mount.entry = $WORK/witness witness none bind,create=dir 0 0
lxc.mount.entry = /dev/${TAG}vg/member member none bind,create=file,ro 0 0'"
    echo "INCUS_LAB_CERT=$WORK/client/client.crt"; echo "INCUS_LAB_KEY=$WORK/client/client.key"; echo "INCUS_LAB_SERVER_CERT=$WORK/client/cluster.crt";;
  lock) mkdir -p "$WORK/san"; echo "$MODE" >"$WORK/san/lock";;
  *) sed -n '2,/^set -u/{/^#/p}' "$0" | sed 's/^# \{0,1\}//'; exit 2;;
esac
