#!/usr/bin/env bash
# The Debian package in a clean Debian 12: installed, looked at, run and removed; reports as the Test Anything Protocol has
# it.
#
#   check.sh PACKAGE.deb FOLDER
#
# FOLDER must be empty or missing; the clean system is made in FOLDER/root, from the mirror that this host's apt uses. Needs
# root and debootstrap. Nothing stays mounted: every command inside has a mount namespace of its own.
# shellcheck disable=SC2317 # functions are called through report
set -uo pipefail
package=$(realpath "$1") work=$2 root=$2/root here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work"

count=0 failed=0
# report NAME COMMAND...
report() {
  local name=$1 said began
  shift
  count=$((count + 1))
  began=$SECONDS
  if said=$("$@" 2>&1); then
    echo "ok $count - $name"
  else
    echo "not ok $count - $name"
    tail -n 40 <<<"$said" | sed 's/^/# /'
    failed=1
  fi
  [[ $((SECONDS - began)) -lt 10 ]] || echo "# took $((SECONDS - began)) s"
}

# inside COMMAND...: in the clean system. Becomes the command, so that its process id is the command's.
inside() {
  # shellcheck disable=SC2016 # $0 and $@ are the inner shell's
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"
}

# as USER COMMAND...: as this user with its groups, with no capabilities and no way to new ones.
as() {
  local user=$1
  shift
  inside setpriv --reuid="$user" --regid="$user" --init-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
}

# Each in a shell of its own, which `inside` replaces.
in_root() { (inside "$@"); }
in_root_as() { (as "$@"); }

# Makes the system, once: what was fetched stays in the cache beside the folder.
clean_system() {
  local mirror
  # shellcheck disable=SC2016 # apt-get fills these in
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 'Component: main' | head -n 1)
  [[ -n $mirror ]] || { echo "this host's apt knows no mirror of Debian 12"; return 1; }
  mkdir -p "$work/../debootstrap-cache"
  DPKG_FORCE=unsafe-io debootstrap --variant=minbase --cache-dir="$(realpath "$work/../debootstrap-cache")" \
    bookworm "$root" "$mirror" || { tail -n 20 "$root/debootstrap/debootstrap.log"; return 1; }
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/test"
}

installs() {
  cp "$package" "$root/root/apelora.deb"
  in_root apt-get install -y -q --no-install-recommends /root/apelora.deb dbus
}

# owner_and_mode PATH WANTED
owner_and_mode() {
  local is
  is=$(in_root stat -c '%U:%G %a' "$1") || return 1
  [[ $is = "$2" ]] || { echo "$1 is $is and should be $2"; return 1; }
}

files_belong_to_whom_they_should() {
  owner_and_mode /etc/apelora/apelora.toml "root:apelora 640" && owner_and_mode /etc/apelora/server.env "root:root 600" &&
    owner_and_mode /etc/apelora/worker.env "root:root 600" && owner_and_mode /var/lib/apelora "apelora:apelora 2770" &&
    owner_and_mode /var/lib/apelora/apelora.db "apelora:apelora 660" || return 1
  ! in_root_as apelora cat /etc/apelora/worker.env || { echo "the server's user reads worker.env"; return 1; }
  ! in_root_as apelora-worker cat /etc/apelora/server.env || { echo "the worker's user reads server.env"; return 1; }
}

nothing_is_started_or_enabled() {
  local unit
  for unit in apelora-server apelora-worker; do
    [[ $(in_root systemctl is-enabled "$unit.service") = disabled ]] || { echo "$unit is enabled"; return 1; }
  done
}

units=(/usr/lib/systemd/system/apelora-server.service /usr/lib/systemd/system/apelora-worker.service)
verifies() {
  local said
  said=$(in_root systemd-analyze verify --man=no "${units[@]}" 2>&1) || { echo "$said"; return 1; }
  ! grep -i apelora <<<"$said"
}
# The threshold is ten times the exposure that the review prints: 0 is best.
reviewed() { in_root systemd-analyze security --offline=true --no-pager --threshold="$2" "${units[$1]}"; }

manual_and_completions() {
  local page
  for page in apelora apelora-server apelora-worker apelora-bmc-check apelora-db-restored; do
    gzip -dc "$root/usr/share/man/man1/$page.1.gz" | grep -q '^\.TH' || { echo "no page $page"; return 1; }
  done
  [[ ! -e $root/usr/share/man/man1/apelora-package-files.1.gz ]] || { echo "the hidden command has a page"; return 1; }
  # shellcheck disable=SC2016 # the inner shell's
  in_root bash -c '. /usr/share/bash-completion/completions/apelora; COMP_WORDS=(apelora wor) COMP_CWORD=1
    _apelora apelora wor apelora; [[ ${COMPREPLY[*]} = worker ]]'
}

upgrade_makes_the_schema() {
  in_root_as apelora apelora db upgrade --config /etc/apelora/apelora.toml &&
    in_root apelora db status --config /etc/apelora/apelora.toml | grep 'up to date' &&
    owner_and_mode /var/lib/apelora/apelora.db "apelora:apelora 660"
}

# The system, booted with its own systemd, so that the units run with everything that stands in them.
booted() { "$here/boot.sh" run "$root" "$@"; }
boots() { "$here/boot.sh" start "$root"; }
trap '"$here/boot.sh" stop "$root"' EXIT

# journal UNIT WORDS: waits until the unit has said this.
journal() {
  local _
  for _ in $(seq 1 300); do
    ! booted journalctl -q --no-pager -o cat -u "$1" | grep -F "$2" || return 0
    sleep 0.1
  done
  booted journalctl -q --no-pager -u "$1"
  return 1
}

# shown UNIT PROPERTY
shown() { booted systemctl show --value --property="$2" "$1"; }
is() { [[ $(shown "$1" "$2") = "$3" ]] || { booted systemctl status --no-pager --full "$1"; return 1; }; }

# The first block of the document, word by word; the package is there already.
first_page_holds() {
  local block
  # shellcheck disable=SC2016 # the marks of a block
  block=$(sed -n '/^## The first ten minutes/,/^## /p' "$here/../../docs/install.md" | sed -n '/^```$/,/^```$/p' |
    sed '/^```$/d' | grep -v '^apt install ')
  [[ $(wc -l <<<"$block") -ge 4 ]] || { echo "the block was not found"; return 1; }
  booted sh -exc "$block" | tee "$work/first" &&
    grep -E 'rack1-n1.*(True|yes|operator_hold)' "$work/first"
}

server_runs_as_its_user() {
  is apelora-server ActiveState active && is apelora-server NRestarts 0 || return 1
  [[ $(booted stat -c %U "/proc/$(shown apelora-server MainPID)") = apelora ]]
}

worker_leads_on_the_same_database() {
  echo 'APELORA_BMC_SECRET_S1=marker' >>"$root/etc/apelora/worker.env"
  booted systemctl start apelora-worker && journal apelora-worker "leads" && is apelora-worker NRestarts 0 || return 1
  # What the worker wrote is what the server serves.
  local _
  for _ in $(seq 1 100); do
    ! booted apelora member list 2>&1 | grep -i 'leads' || return 0
    sleep 0.1
  done
  booted apelora member list
  return 1
}

only_the_worker_has_the_passwords() {
  local worker server
  worker=$(shown apelora-worker MainPID) server=$(shown apelora-server MainPID)
  booted grep -qz '^APELORA_BMC_SECRET_S1=marker' "/proc/$worker/environ" || { echo "the worker has not got it"; return 1; }
  ! booted grep -qz '^APELORA_BMC_SECRET' "/proc/$server/environ" || { echo "the server has it"; return 1; }
  ! booted setpriv --reuid=apelora --regid=apelora --init-groups cat "/proc/$worker/environ" ||
    { echo "the server's user reads the worker's environment"; return 1; }
}

# As the document has it: the map is read, the password is there, and nobody is at the address.
check_of_a_bmc_runs_as_the_worker() {
  local said line
  echo '{"members": {"s1": {"provider": "ipmi", "address": "127.0.0.1:1", "user": "apelora",
    "secret": "APELORA_BMC_SECRET_S1", "uuid": "5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27"}}}' >"$root/etc/apelora/bmc.json"
  booted sh -ec 'chgrp apelora-worker /etc/apelora/bmc.json && chmod 0640 /etc/apelora/bmc.json'
  line=$(sed -n '/systemd-run.*apelora-worker/,/bmc check/p' "$here/../../docs/install.md")
  said=$(booted sh -c "$line" 2>&1) || true
  grep -F bmc_unreachable <<<"$said" || { echo "$line"; echo "$said"; return 1; }
}

a_killed_worker_comes_back() {
  local _
  booted systemctl kill --signal=KILL apelora-worker || return 1
  for _ in $(seq 1 200); do
    [[ $(shown apelora-worker NRestarts) != 1 || $(shown apelora-worker ActiveState) != active ]] || return 0
    sleep 0.1
  done
  is apelora-worker NRestarts 1
}

a_wrong_setting_is_not_tried_again() {
  echo 'APELORA_PASS_INTERVAL_SECS=99' >>"$root/etc/apelora/worker.env"
  booted systemctl restart apelora-worker
  journal apelora-worker "APELORA_PASS_INTERVAL_SECS (environment)" && journal apelora-worker "Failed with result" &&
    is apelora-worker ActiveState failed && is apelora-worker ExecMainStatus 2 && is apelora-worker NRestarts 0 || return 1
  sed -i '/PASS_INTERVAL/d' "$root/etc/apelora/worker.env"
  booted systemctl start apelora-worker
}

stops_in_good_order() {
  booted systemctl stop apelora-worker apelora-server || return 1
  for unit in apelora-worker apelora-server; do
    is "$unit" Result success && is "$unit" ExecMainStatus 0 || return 1
  done
  # A file that is whole again.
  [[ ! -e $root/var/lib/apelora/apelora.db-wal ]]
}

sum() { sha256sum "$root/var/lib/apelora/apelora.db" | cut -d ' ' -f 1; }
removal_leaves_the_database() {
  local before
  booted systemctl start apelora-server && journal apelora-server "the Bare Metal API is at" || return 1
  booted env DEBIAN_FRONTEND=noninteractive apt-get remove -y -q apelora || return 1
  before=$(sum)
  [[ ! -e $root/usr/bin/apelora ]] || { echo "the program is still there"; return 1; }
  [[ -z $(booted systemctl list-units --no-legend --state=active 'apelora-*') ]] || { echo "something still runs"; return 1; }
  booted env DEBIAN_FRONTEND=noninteractive apt-get purge -y -q apelora || return 1
  [[ $(sum) = "$before" && -s $root/var/lib/apelora/apelora.db ]] || { echo "the database is not what it was"; return 1; }
}
the_database_is_found_again() {
  booted env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends /root/apelora.deb &&
    booted systemctl start apelora-server && journal apelora-server "the Bare Metal API is at" || return 1
  booted apelora node show rack1-n1
}

report "a clean Debian 12 is made" clean_system
report "the package installs with what it needs" installs
report "its files belong to whom they should" files_belong_to_whom_they_should
report "nothing is enabled by the installation" nothing_is_started_or_enabled
report "the units are sound" verifies
report "the server's unit passes the security review" reviewed 0 15
report "the worker's unit passes the security review" reviewed 1 16
report "manual pages and completions are there" manual_and_completions
report "apelora db upgrade makes the schema" upgrade_makes_the_schema
report "the system boots" boots
report "the first page of docs/install.md holds word by word" first_page_holds
report "the server runs as its user" server_runs_as_its_user
report "the worker leads on the same database" worker_leads_on_the_same_database
report "the worker alone has the passwords of BMCs" only_the_worker_has_the_passwords
report "a BMC is checked as the worker's user" check_of_a_bmc_runs_as_the_worker
report "a worker that was killed comes back" a_killed_worker_comes_back
report "a wrong setting ends it for good" a_wrong_setting_is_not_tried_again
report "both end in good order" stops_in_good_order
report "removal and purge stop the server and leave the database" removal_leaves_the_database
report "a new installation goes on with it" the_database_is_found_again
echo "1..$count"
exit "$failed"
