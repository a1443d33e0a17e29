#!/bin/sh
# Process 1 of the lab: makes a host with cgroup v2 alone, runs one command, and says how it ended.
# /lab/job, which comes on the second disk, sets these:
#   user, delegate    who runs the command, and `yes` where a cgroup belongs to that user
#   sysctls           lines of name=value
#   mark              bytes that end a stream of output
#   job               a function that becomes the command
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
groups=/sys/fs/cgroup
controllers="+cpu +io +memory +pids"

stop() {
    echo "failed: $1" >/dev/vport0p3
    # The machine is ended from outside once everything has been read.
    while :; do sleep 60; done
}

mount -t proc -o nosuid,nodev,noexec proc /proc &&
    mount -t sysfs -o nosuid,nodev,noexec sysfs /sys &&
    mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "$groups" &&
    mkdir -p /dev/pts /dev/shm &&
    mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts &&
    mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /dev/shm &&
    mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs /run || stop "mounting what every host has"
ln -sf /proc/self/fd /dev/fd
hostname lab
busybox ip link set lo up || stop "bringing the loopback up"
mkdir -p /srv/lab /run/lab
(cd / && busybox cpio -i -d -u </dev/vdb 2>/run/lab/unpack) || stop "unpacking: $(cat /run/lab/unpack)"
. /lab/job
id "$user" >/dev/null 2>&1 || stop "there is no user $user here; root, agent and nobody exist"
chown "$user:" /srv/lab
chown agent: /home/agent

echo "$sysctls" | while IFS='=' read -r name value; do
    [ -z "$name" ] || busybox sysctl -q -w "$name=$value" || exit 1
done || stop "setting a sysctl of: $(echo $sysctls)"

# The groups that a machine with systemd has: this process apart, and the command in a leaf.
own=$groups/init.scope
case $user in
    root) slice=$groups/system.slice leaf=$groups/system.slice/lab.service ;;
    *) slice=$groups/user.slice leaf=$groups/user.slice/lab.service ;;
esac
mkdir -p "$own" "$leaf" && echo 1 >"$own/cgroup.procs" &&
    echo "$controllers" >"$groups/cgroup.subtree_control" &&
    echo "$controllers" >"$slice/cgroup.subtree_control" || stop "making cgroups"
if [ "$delegate" = yes ]; then
    # What Delegate=yes does: the group and these files belong to the user, its limits do not.
    for file in . cgroup.procs cgroup.threads cgroup.subtree_control; do
        chown "$user:" "$leaf/$file" || stop "handing $leaf/$file to $user"
    done
    mkdir -p "$leaf/app" && chown -R "$user:" "$leaf/app" || stop "handing $leaf/app to $user"
    session=$leaf/app
else
    session=$leaf
fi

relay() {
    cat "$1"
    printf %s "$mark"
}
mkfifo /run/lab/out /run/lab/err
relay /run/lab/out >/dev/vport0p1 &
out=$!
relay /run/lab/err >/dev/vport0p2 &
err=$!
(
    echo 0 >"$session/cgroup.procs" || exit 125
    cd /srv/lab || exit 125
    job
) </dev/null >/run/lab/out 2>/run/lab/err &
wait $!
code=$?
# What the command left running must not keep its output open.
echo 1 >"$leaf/cgroup.kill"
wait $out $err
echo "exit $code" >/dev/vport0p3
while :; do sleep 60; done
