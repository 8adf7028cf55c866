#!/bin/bash
# The first process of a machine, in mounts, processes, a network, control groups and a name of its own: it makes of a folder what systemd
# expects, and becomes systemd. To kill it is to pull the plug.
#
#   boot.sh FOLDER
set -eu
root="$1"

mount --make-rprivate /
mount --bind "$root" "$root"
mount --make-private "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"

# Each hierarchy that this machine has, as this control-group namespace sees it: nothing but our own branch.
if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
    groups="$root/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 tmpfs "$groups"
    while IFS=: read -r number names _; do
        case "$number:$names" in
            0:) folder=unified options=(-t cgroup2) ;;
            *:name=*) folder="${names#name=}" options=(-t cgroup -o "none,$names") ;;
            *) folder="$names" options=(-t cgroup -o "$names") ;;
        esac
        mkdir "$groups/$folder"
        mount "${options[@]}" cgroup "$groups/$folder"
    done </proc/self/cgroup
fi

mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    touch "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"

hostname fresh
ip link set lo up
mkdir -p "$root/old"
cd "$root"
pivot_root . old
umount -l /old
rmdir /old
# systemd hands its mounts on to its services.
mount --make-rshared /
# Without the last one a newer systemd refuses control groups as older machines have them.
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=proof /sbin/init systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 </dev/null
