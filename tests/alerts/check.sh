#!/usr/bin/env bash
# The alert rules of docs/alerts.yml, checked by Prometheus' own tool; reports as the Test Anything Protocol has it.
#
# Each test of alerts.test.yml is a night: which alerts it must raise, and which not. A rule without a night fails.
# shellcheck disable=SC2317 # `report` calls the functions
set -uo pipefail
cd "$(dirname "$0")" || exit

count=0 failed=0
# report NAME COMMAND...
report() {
  local name=$1 said
  shift
  count=$((count + 1))
  if said=$("$@" 2>&1); then
    echo "ok $count - $name"
  else
    echo "not ok $count - $name"
    printf '# %s\n' "${said//$'\n'/$'\n# '}"
    failed=1
  fi
}

every_rule_has_a_night() {
  local alert missing=0
  while read -r alert; do
    grep -A4 "alertname: $alert\$" alerts.test.yml | grep -q 'exp_labels' || { echo "$alert is never raised"; missing=1; }
  done < <(sed -n 's/^ *- alert: //p' ../../docs/alerts.yml)
  return "$missing"
}

every_rule_is_in_the_runbook() {
  local alert missing=0
  while read -r alert; do
    grep -q "\`$alert\`" ../../docs/runbooks/night.md || { echo "$alert is not in docs/runbooks/night.md"; missing=1; }
  done < <(sed -n 's/^ *- alert: //p' ../../docs/alerts.yml)
  return "$missing"
}

# By the names under which worker and server register their figures, without prefix, unit and the suffix of counters.
every_figure_is_there() {
  local figure name missing=0
  while read -r figure; do
    name=${figure#apelora_} name=${name%_total} name=${name%_seconds}
    grep -q "\"$name\"" ../../crates/apelora-worker/src/metrics.rs ../../crates/apelora-server/src/cluster/figures.rs ||
      { echo "nobody exports $figure"; missing=1; }
  done < <(sed -n '/expr:/,/labels:/p' ../../docs/alerts.yml | grep -oE 'apelora_[a-z_]+' | sort -u)
  return "$missing"
}

report "the rules can be loaded" promtool check rules ../../docs/alerts.yml
report "every night raises its alerts and no others" promtool test rules alerts.test.yml
report "every rule has a night in which it is raised" every_rule_has_a_night
report "every rule is in the runbook" every_rule_is_in_the_runbook
report "every figure of the rules is exported" every_figure_is_there
echo "1..$count"
exit "$failed"
