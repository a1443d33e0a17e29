#!/bin/busybox sh
# The first program of the machine: loads what the disks and the ports need, then goes on in the
# root on the first disk.
bb=/bin/busybox
set -e
$bb mount -t devtmpfs dev /dev
load() {
    while read -r module; do
        $bb insmod "/$1/$module"
    done <"/$1/order"
}
load modules
# A word of the kernel's command line.
if [ "$nested" = yes ]; then
    load nested
    # As on hosts with systemd, every user may use it.
    $bb chmod 666 /dev/kvm
fi
$bb mount -t ext4 /dev/vda /new
$bb mount --move /dev /new/dev
exec $bb switch_root /new /lab/init
