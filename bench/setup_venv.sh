#!/usr/bin/env bash
# Makes build/venv: a Python environment with the pinned PyTorch for ./dev bench, the goldens and the parity
# tests. Nothing else of the project needs it. About 1 GB with the CPU build of PyTorch.
#
#   bench/setup_venv.sh [FOLDER]        PYTHON=python3.12 bench/setup_venv.sh
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
venv=${1:-$root/build/venv}
python=${PYTHON:-python3}

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  echo "bench/setup_venv.sh: $python cannot make environments: its modules venv and ensurepip are missing" >&2
  echo "  hint: install python3-venv" >&2
  exit 2
fi
if [[ ! -x $venv/bin/python ]]; then
  "$python" -m venv "$venv"
fi
# The CPU builds have an index of their own: the wheels elsewhere bring gigabytes of CUDA libraries.
index=${TORCH_INDEX_URL:-https://download.pytorch.org/whl/cpu}
is_there='import sys, torch; sys.exit(torch.__version__.split("+")[0] != "2.13.0")'
if ! "$venv/bin/python" -c "$is_there" 2>/dev/null; then
  "$venv/bin/python" -m pip install --quiet --extra-index-url "$index" -r "$root/bench/requirements.txt"
fi
"$venv/bin/python" -c 'import torch, numpy, safetensors; print("PyTorch", torch.__version__, "is ready")'
echo "  $venv/bin/python"
