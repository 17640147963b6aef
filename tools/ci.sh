#!/usr/bin/env bash
# Everything CI checks, by way of ./dev ci. The main tests come last: the output ends with ctest's summary.
#
# A step that fails does not keep the later ones from running: one run tells everything that is wrong. With
# --full, what takes longer than CI may: other compilers, ThreadSanitizer, fuzzing, and a newcomer's first two
# commands on a bare Debian 12 and 13.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

full=no
case "${1:-}" in
  "") ;;
  --full) full=yes ;;
  *)
    echo "ci: unknown argument '$1'" >&2
    exit 2
    ;;
esac

export LOCKSTEP_WERROR=ON
export LOCKSTEP_CI=1 # checks whose tools are missing fail instead of skipping
failed=()

times=()

# step NAME COMMAND...: runs it, remembers how long it took and whether it failed.
step() {
  local name=$1 start=$SECONDS status=0
  shift
  echo "== ci: $name" >&2
  "$@" || status=$?
  times+=("$((SECONDS - start)) s  $name")
  if [[ $status -ne 0 ]]; then
    failed+=("$name")
    echo "== ci: $name FAILED (exit $status)" >&2
  fi
}

step "packages" ./dev deps --ci
step "format" ./dev fmt --check
step "build with -Werror, headers alone" ./dev build-all
step "lint" ./dev lint --all
step "address and undefined-behaviour sanitizers" ./dev test-preset asan
if [[ $full == yes ]]; then
  step "static analyzer" ./dev lint --deep
  step "clang" ./dev test-preset clang
  step "thread sanitizer" ./dev test-preset tsan
  step "fuzzing" ./dev fuzz 120
  step "newcomer on Debian 12" tools/newcomer.sh bookworm
  step "newcomer on Debian 13" tools/newcomer.sh trixie
fi
printf '== ci: %s\n' "${times[@]}" >&2
step "tests" ./dev test # its summary is the last output when all is well

if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'ci: FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
