# A run works; with user namespaces forbidden Stockade refuses it, and doctor and the error name the
# sysctl, for root and for an ordinary user.
as_agent="setpriv --reuid=agent --regid=agent --init-groups"
for who in "" "$as_agent"; do
    $who stockade run -- true || exit 1
done
# On a busy host doctor may not finish its test in two seconds, and reports that.
patient_doctor() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        $who stockade doctor >/tmp/output
        grep -q 'see whether the host is overloaded' /tmp/output || return
    done
}
busybox sysctl -q -w user.max_user_namespaces=0 || exit 1
for who in "" "$as_agent"; do
    $who stockade run -- true 2>/tmp/output
    code=$?
    cat /tmp/output
    [ "$code" = 125 ] && grep -q user.max_user_namespaces /tmp/output || exit 1
    patient_doctor
    grep -q 'because .* the sysctl user.max_user_namespaces, which is 0' /tmp/output || exit 1
done
