#!/bin/bash
# The first process of a machine, in a network, mounts, processes and a name of its own. What it mounts goes with it, and so
# does every process that was ever started there: to kill it is to pull the plug.
#
#   boot.sh BASE FOLDER NAME
set -eu
base="$1" folder="$2" name="$3" root="$2/root"

mount -t overlay overlay -o "lowerdir=$base,upperdir=$folder/changes,workdir=$folder/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
# A disk of its own: layers of images cannot lie on what is made of layers itself.
mkdir -p "$root/var/lib/docker"
mount --bind "$folder/disk" "$root/var/lib/docker"
hostname "$name"
mkdir -p "$root/old"
cd "$root"
pivot_root . old
umount -l old
mkdir -p /run/lock
echo up >/run/booted
# A shell that waits takes in the orphans of all others.
exec bash -c 'while :; do sleep 3600; done'
