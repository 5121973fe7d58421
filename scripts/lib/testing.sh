# shellcheck shell=bash
# What scripts/test and the suites share. A suite is a file scripts/suites/NAME that is read in a shell of its own with
# these functions at hand. It defines `run`; and, if it needs more than cargo, `needs`, which installs that: then it is
# left out with --quick. What makes it more whole, but not with --quick, is installed by `wants`.
#
# A suite counts through cargo_tests and tap_tests alone. It stops what it starts with `at_end`.

WORK=$PWD/.work
export WORK
# Tests that a suite gives to the totals, one a line: passed|failed|skipped, name, reason.
RESULTS=$WORK/results
# The only reasons for which something may be left out.
SKIP_REASONS=("--quick given" "no right to make network namespaces or loop devices" "real hardware not given")

die() { printf 'scripts/test: %s\n' "$*" >&2; exit 2; }
say() { printf '\n== %s\n' "$*"; }

# Packages --------------------------------------------------------------------------------------------------------

as_root() { if [[ $(id -u) = 0 ]]; then "$@"; else sudo "$@"; fi; }

# need_program PROGRAM PACKAGE: the Debian package, if the program is not in PATH or at that path.
need_program() {
  [[ -z $(PATH=$PATH:/usr/sbin:/sbin type -P "$1") ]] || return 0
  [[ -n $(type -P apt-get) ]] || die "$1 is missing; install it (on Debian: package $2)"
  say "installing $2"
  [[ -f $WORK/apt-updated ]] || { as_root apt-get update -q >"$WORK/apt.log" 2>&1 || true; touch "$WORK/apt-updated"; }
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$2" >>"$WORK/apt.log" 2>&1 ||
    die "apt-get install $2 failed; see $WORK/apt.log"
}

need_nextest() {
  cargo nextest --version >/dev/null 2>&1 && return
  say "installing cargo-nextest"
  cargo install --locked --quiet cargo-nextest@0.9.143
}

# need_database postgres|mariadb: a server of its own on loopback until the suite ends, away from the checkout, which
# the server's user may not be able to enter. Sets APELORA_TEST_<NAME>_URL and APELORA_TEST_<NAME>_WORK.
need_database() {
  local folder variable=APELORA_TEST_${1^^}
  case $1 in
    postgres) need_program "$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | head -n 1)" postgresql ;;
    mariadb) need_program mariadbd mariadb-server ;;
  esac
  need_program python3 python3
  folder=$(mktemp -d "/tmp/apelora-$1.XXXXXX")
  at_end "rm -rf $folder"
  at_end "tests/labs/$1.sh stop $folder"
  # Not in $(...), which would wait for the server to end.
  tests/labs/"$1".sh start "$folder" >"$WORK/$1.log"
  export "${variable}_WORK=$folder" "${variable}_URL=$(tests/labs/"$1".sh url "$folder")"
}

# need_python VENV REQUIREMENTS: a virtual environment under .work/ with exactly these packages; sets PYTHON and PATH.
need_python() {
  local venv=$WORK/$1
  if ! cmp -s "$2" "$venv/requirements.txt"; then
    need_program python3 python3
    say "installing the packages of $2"
    rm -rf "$venv"
    if ! python3 -m venv "$venv" >/dev/null 2>&1; then
      # The interpreter is there without its ensurepip: Debian keeps it in a package of its own.
      rm -rf "$venv"
      need_program no-such-program python3-venv
      /usr/bin/python3 -m venv "$venv"
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$2"
    cp "$2" "$venv/requirements.txt"
  fi
  export PYTHON=$venv/bin/python PATH=$venv/bin:$PATH
}

# Counting --------------------------------------------------------------------------------------------------------

begin_totals() {
  mkdir -p "$WORK"
  : >"$RESULTS"
  STARTED=$SECONDS
}

# result passed|failed|skipped NAME [REASON]
result() { printf '%s\t%s\t%s\n' "$1" "$2" "${3:-}" >>"$RESULTS"; }

# Everything is built together, once: a build of one crate alone gives its dependencies other features, and cargo would
# make them again.
build() { cargo test --workspace --locked --no-run; }

# cargo_tests [-p CRATE] ARGS...: `cargo nextest run ARGS`, or `cargo test ARGS` where nextest is missing. With
# --run-ignored only it runs the tests that are marked #[ignore].
cargo_tests() {
  local status=0 chosen=(--workspace)
  if cargo nextest --version >/dev/null 2>&1; then
    local report=target/nextest/default/junit.xml
    rm -f "$report"
    while [[ $# -gt 0 ]]; do
      case $1 in
        --workspace) ;;
        -p) chosen+=(-E "package(=$2)") && shift ;;
        *) chosen+=("$1") ;;
      esac
      shift
    done
    cargo nextest run --locked "${chosen[@]}" || status=$?
    [[ -f $report ]] || { result failed "cargo nextest run ${chosen[*]}" "did not run any test"; return 1; }
    # One testcase element a line; a failed one holds a failure or error element.
    awk 'function give() { if (name != "") printf "%s\t%s\t\n", state, name }
      match($0, /<testcase name="[^"]*" classname="[^"]*"/) {
        give(); split(substr($0, RSTART, RLENGTH), part, "\""); name = part[4] " " part[2]; state = "passed" }
      /<(failure|error)[ >]/ { state = "failed" }
      END { give() }' "$report" >>"$RESULTS"
  else
    local log=$WORK/cargo-test.log
    cargo test --locked "$@" 2>&1 | tee "$log" || status=$?
    sed -n 's/^test \(.*\) \.\.\. ok$/passed\t\1\t/p; s/^test \(.*\) \.\.\. FAILED$/failed\t\1\t/p' "$log" >>"$RESULTS"
  fi
  return "$status"
}

# tap_tests NAME COMMAND...: a program that reports as the Test Anything Protocol has it: `ok N - NAME`,
# `not ok N - NAME`, `ok N - NAME # SKIP REASON`, and the plan `1..N` at its end.
tap_tests() {
  local suite=$1 log=$WORK/$1.tap status=0 ran plan
  shift
  "$@" | tee "$log" || status=$?
  sed -nE "s/^ok [0-9]+ - (.*) # SKIP (.*)\$/skipped\t$suite \1\t\2/p; t
    s/^ok [0-9]+ - (.*)\$/passed\t$suite \1\t/p; s/^not ok [0-9]+ - (.*)\$/failed\t$suite \1\t/p" "$log" >>"$RESULTS"
  ran=$(grep -cE '^(not )?ok ' "$log" || true)
  plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$log")
  [[ -n $plan && $plan = "$ran" && $ran != 0 ]] ||
    result failed "$suite" "ended early: $ran of ${plan:-an unknown number of} tests reported"
  return "$status"
}

# Suites ----------------------------------------------------------------------------------------------------------

# at_end COMMAND: run when the suite ends, however it ends; the last given first.
AT_END=()
at_end() { AT_END=("$*" "${AT_END[@]}"); }
run_at_end() { local command; for command in "${AT_END[@]}"; do eval "$command" || true; done; }

# In a process of its own, so that what the suite sets and starts ends with it, and its first error ends it.
run_suite() {
  local name=$1 status=0 before began=$SECONDS
  if [[ $QUICK = yes ]] && grep -q '^needs()' "scripts/suites/$name"; then
    result skipped "suite $name" "--quick given"
    return
  fi
  say "suite $name"
  before=$(failures)
  bash scripts/lib/run-suite "$name" || status=$?
  [[ $status = 0 || $(failures) -gt $before ]] || result failed "suite $name" "ended with exit code $status"
  echo "suite $name took $((SECONDS - began)) s"
}

failures() { grep -c $'^failed\t' "$RESULTS" || true; }

# Longer forms of tests that are in every run, and what tells the story of one of their cases: for people, on demand.
# They are named here, so that nothing else can hide behind #[ignore].
ON_DEMAND=(
  "apelora-fencing::it exhaustive::long_form"
  "apelora-fencing::it night::nights_of_a_lifetime"
  "apelora-fencing::it night::one"
)

# A test that is marked #[ignore] is run by the suite that starts what it needs, or it is run by nobody.
every_ignored_test_ran() {
  local test list=$WORK/ignored
  if ! cargo nextest list --workspace --locked --run-ignored only --message-format oneline >"$list" 2>"$WORK/list.log"; then
    result failed "list of the tests that are marked #[ignore]" "see $WORK/list.log"
  fi
  while read -r test; do
    if [[ " ${ON_DEMAND[*]} " = *" $test "* ]]; then
      echo "on demand only: $test"
      continue
    fi
    grep -qF $'\t'"$test"$'\t' "$RESULTS" || result failed "$test" "is marked #[ignore] and no suite runs it"
  done <"$list"
}

print_totals() {
  local passed failed skipped reason allowed bad=0
  passed=$(grep -c $'^passed\t' "$RESULTS" || true)
  failed=$(failures)
  skipped=$(grep -c $'^skipped\t' "$RESULTS" || true)
  say "totals"
  while IFS=$'\t' read -r _ name reason; do
    allowed=no
    for known in "${SKIP_REASONS[@]}"; do [[ $reason != "$known" ]] || allowed=yes; done
    [[ $allowed = yes ]] || bad=$((bad + 1))
    printf 'skipped: %s: %s%s\n' "$name" "$reason" "$([[ $allowed = yes ]] || echo ' (not a reason to skip)')"
  done < <(grep $'^skipped\t' "$RESULTS")
  while IFS=$'\t' read -r _ name reason; do
    printf 'failed: %s%s\n' "$name" "${reason:+: $reason}"
  done < <(grep $'^failed\t' "$RESULTS")
  printf '%d tests run in %d s\n' "$((passed + failed))" "$((SECONDS - STARTED))"
  printf 'totals: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [[ $failed = 0 && $bad = 0 && $passed -gt 0 ]]
}
