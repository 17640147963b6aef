#!/usr/bin/env bash
# A newcomer's two commands on a bare Debian: newcomer.sh bookworm|trixie [FOLDER]
#
# Makes a minimal Debian in FOLDER (default /var/tmp/lockstep-newcomer/RELEASE) with debootstrap, copies the
# files of this tree into it, and runs the README's `./dev demo` and `./dev test` there as root, without a
# terminal. Needs root and debootstrap; $LOCKSTEP_MIRROR names another Debian mirror.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

release=${1:?usage: newcomer.sh bookworm|trixie [FOLDER]}
root=${2:-/var/tmp/lockstep-newcomer/$release}
mirror=${LOCKSTEP_MIRROR:-http://deb.debian.org/debian}

if [[ $(id -u) -ne 0 ]] || ! command -v debootstrap >/dev/null; then
  echo "newcomer: needs root and debootstrap" >&2
  exit 1
fi

if [[ ! -x $root/usr/bin/apt-get ]]; then
  mkdir -p "$root"
  debootstrap --variant=minbase "$release" "$root" "$mirror" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    exit 1
  }
  # Name service as here; certificates and proxies belong to the machine, not to Debian.
  cp /etc/resolv.conf "$root/etc/resolv.conf"
fi

unmount() {
  umount "$root/proc" 2>/dev/null || true
  umount "$root/dev/shm" 2>/dev/null || true
}
trap unmount EXIT
mount -t proc proc "$root/proc"
[[ -e $root/dev/null ]] || mknod -m 666 "$root/dev/null" c 1 3
[[ -e $root/dev/urandom ]] || mknod -m 444 "$root/dev/urandom" c 1 9
mkdir -p "$root/dev/shm"
mount -t tmpfs tmpfs "$root/dev/shm"

rm -rf "$root/root/lockstep"
mkdir -p "$root/root/lockstep"
git ls-files -z --cached --others --exclude-standard |
  tar --null --files-from=- --create --ignore-failed-read | tar -x -C "$root/root/lockstep"

in_chroot() {
  echo "== $release: $*" >&2
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 \
    chroot "$root" bash -c 'cd /root/lockstep && "$@"' newcomer "$@" </dev/null
}
in_chroot ./dev demo
in_chroot ./dev test
