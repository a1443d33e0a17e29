# There a policy that accepts the reduced wall uses it, and report and message name it.
echo 'isolation: reduced' >/tmp/policy.yaml
for who in "" "$as_agent"; do
    output=$($who stockade run --policy /tmp/policy.yaml -- echo ran 2>&1)
    echo "$output"
    case $output in *"stockade: the reduced wall was used"*) ;; *) exit 1 ;; esac
    case $output in *ran*) ;; *) exit 1 ;; esac
    $who stockade run --json --policy /tmp/policy.yaml -- true | grep -q '"provider": *"reduced"' || exit 1
    $who stockade policy plan /tmp/policy.yaml >/dev/null || exit 1
done
