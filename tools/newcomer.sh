#!/usr/bin/env bash
# A newcomer's two commands on a bare Debian: newcomer.sh bookworm|trixie [FOLDER]
#
# Makes a minimal Debian in FOLDER (default /var/tmp/lockstep-newcomer/RELEASE) with debootstrap, copies the
# files of this tree into it, and runs the README's `./dev demo` and `./dev test` there without a terminal, as
# a user who may use sudo. Before the second command that right is taken away: nothing is missing any more, so
# nothing may ask for it. A FOLDER of an earlier run is made anew, unless LOCKSTEP_KEEP_DEBIAN is set. Needs
# root and debootstrap; $LOCKSTEP_MIRROR names another Debian mirror.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

release=${1:?usage: newcomer.sh bookworm|trixie [FOLDER]}
root=${2:-/var/tmp/lockstep-newcomer/$release}
mirror=${LOCKSTEP_MIRROR:-http://deb.debian.org/debian}

if [[ $(id -u) -ne 0 ]] || ! command -v debootstrap >/dev/null; then
  echo "newcomer: needs root and debootstrap" >&2
  exit 1
fi

unmount() {
  local folder
  for folder in "$root/dev/shm" "$root/proc"; do
    if mountpoint -q "$folder"; then umount "$folder"; fi
  done
}

# in_debian USER COMMAND...: runs it in the home folder's lockstep, with an empty environment and no terminal.
in_debian() {
  local user=$1
  shift
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
    chroot "$root" runuser -u "$user" -- env HOME=/home/newcomer bash -c \
    'cd /home/newcomer/lockstep && "$@"' newcomer "$@" </dev/null
}

unmount
if [[ -z ${LOCKSTEP_KEEP_DEBIAN:-} ]]; then rm -rf --one-file-system "$root"; fi
if [[ ! -x $root/usr/bin/sudo ]]; then
  mkdir -p "$root"
  debootstrap --variant=minbase --include=sudo "$release" "$root" "$mirror" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    exit 1
  }
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
trap unmount EXIT
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs tmpfs "$root/dev/shm"

[[ -d $root/home/newcomer ]] || chroot "$root" useradd --create-home --shell /bin/bash newcomer
rm -rf "$root/home/newcomer/lockstep"
mkdir "$root/home/newcomer/lockstep"
git ls-files -z --cached --others --exclude-standard |
  tar --create --null --files-from=- --ignore-failed-read | tar --extract -C "$root/home/newcomer/lockstep"
chroot "$root" chown -R newcomer:newcomer /home/newcomer

echo "== $release: ./dev demo" >&2
echo "newcomer ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/newcomer"
in_debian newcomer ./dev demo
echo "== $release: ./dev test, without sudo" >&2
rm "$root/etc/sudoers.d/newcomer"
in_debian newcomer ./dev test
