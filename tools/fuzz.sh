#!/usr/bin/env bash
# Runs the fuzz programs of build/fuzz: fuzz.sh SECONDS NAME...
#
# What libFuzzer finds on the way stays in build/fuzz/found/NAME and speeds up the next run; an input that
# crashes is kept as build/fuzz/found/NAME-crash-*: fix it, then put the file into fuzz/corpus/NAME, which
# ctest replays.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

seconds=${1:?usage: fuzz.sh SECONDS NAME...}
shift
failed=()
for name in "$@"; do
  mkdir -p "build/fuzz/found/$name"
  echo "== fuzzing $name for $seconds s" >&2
  "build/fuzz/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$name-" "build/fuzz/found/$name" "fuzz/corpus/$name" ||
    failed+=("$name")
done
[[ ${#failed[@]} -eq 0 ]] || {
  echo "fuzzing failed: ${failed[*]}" >&2
  exit 1
}
