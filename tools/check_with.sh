#!/usr/bin/env bash
# Runs a check that needs a program which users may lack: check_with.sh PROGRAM COMMAND...
# Without the program it prints SKIPPED and ends with 77, or fails where everything must run (LOCKSTEP_CI).
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
program=$1
shift
if command -v "$program" >/dev/null; then
  exec "$@"
fi
if [[ -n ${LOCKSTEP_CI:-} ]]; then
  echo "$program is not installed, and LOCKSTEP_CI is set" >&2
  exit 1
fi
echo "SKIPPED: $program is not installed"
exit 77
