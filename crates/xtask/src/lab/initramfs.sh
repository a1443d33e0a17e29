#!/bin/busybox sh
# The first program of the machine: loads what the disks and the ports need, then goes on in the
# root on the first disk.
bb=/bin/busybox
set -e
$bb mount -t devtmpfs dev /dev
while read -r module; do
    $bb insmod "/modules/$module"
done </modules/order
$bb mount -t ext4 /dev/vda /new
$bb mount --move /dev /new/dev
exec $bb switch_root /new /lab/init
