#!/bin/sh
# Makes this machine part of the Moorage installation at @BASE_URL@.
#
#   printf %s TOKEN | sh join.sh [--yes]
#
# The token comes that way because whoever looks at the list of processes would read an argument. It says what it will
# do and asks on the terminal. Each step can be repeated: run the same command again after a failure.
# `moor-node leave` undoes all of it but the packages.
set -eu

base_url='@BASE_URL@'
bundle_sha256='@BUNDLE_SHA256@'
infrastructure='@INFRASTRUCTURE@'
allow_runc='@ALLOW_RUNC@'
root="${MOORAGE_ROOT:-/opt/moorage}"
settings="${MOORAGE_SETTINGS:-/etc/moorage}"
services="${MOORAGE_SERVICES:-/etc/systemd/system}"
commands="${MOORAGE_COMMANDS:-/usr/local/bin}"
here="$root/$(printf '%.16s' "$bundle_sha256")"
python="$root/current/.venv/bin/python"
least_disk_kb=$((10 * 1024 * 1024))
step='beginning'

say() { printf '%s\n' "$*"; }

fail() {
    stop_at "$*" 'Fix that and run the same command again: it goes on from there.'
}

stop_at() {
    printf '\nThis step failed: %s\n%s\n%s\n' "$step" "$1" "$2" >&2
    trap - EXIT
    exit 1
}

ended() {
    status=$?
    [ "$status" = 0 ] || printf '\nThis step failed: %s\nRun the same command again: it goes on from there.\n' "$step" >&2
    exit "$status"
}

interrupted() {
    trap - EXIT
    printf '\nInterrupted at this step: %s\nRun the same command again: it goes on from there.\n' "$step" >&2
    exit 130
}

begin() {
    step="$1"
    say "» $1 …"
}

check_machine() {
    begin 'look at this machine'
    [ "$(id -u)" = 0 ] || fail 'It needs root. Run the command as root, or where sudo is.'
    case "$base_url" in https://*) ;; *) fail "$base_url is not an https:// address." ;; esac
    case "$(uname -m)" in
        x86_64 | aarch64) ;;
        *) fail "Its architecture is $(uname -m); x86_64 and aarch64 are supported." ;;
    esac
    command -v apt-get >/dev/null || fail 'It has no apt-get. Debian 12 or newer and Ubuntu 24.04 or newer are supported.'
    [ -c /dev/net/tun ] || ip link add moorwg-probe type wireguard 2>/dev/null \
        || fail 'It has neither /dev/net/tun nor WireGuard in its kernel, so there can be no tunnel.'
    ip link delete moorwg-probe 2>/dev/null || true
    free_kb="$(df -Pk /var/lib | awk 'NR == 2 {print $4}')"
    [ "$free_kb" -ge "$least_disk_kb" ] || fail "It has $((free_kb / 1024 / 1024)) GiB free in /var/lib; 10 GiB are needed."
}

missing_packages() {
    for pair in python3:python3 curl:curl ip:iproute2 iptables:iptables wg:wireguard-tools; do
        command -v "${pair%%:*}" >/dev/null || printf '%s ' "${pair##*:}"
    done
    python3 -c 'import ensurepip' 2>/dev/null || printf 'python3-venv '
    [ -d /etc/ssl/certs ] || printf 'ca-certificates '
    if ! { modprobe wireguard 2>/dev/null || [ -d /sys/module/wireguard ]; }; then
        command -v wireguard-go >/dev/null || printf 'wireguard-go '
    fi
    command -v dockerd >/dev/null || command -v docker >/dev/null || printf 'docker.io '
    [ "$infrastructure" = operator ] || command -v runsc >/dev/null || printf 'runsc '
}

say_what_lending_means() {
    say ''
    say 'You lend this machine. People whom you do not know run their programs on it:'
    say '  - each in a container inside a sandbox (gVisor), for which Docker gets a runtime of its own, moorage-runsc;'
    say '    it does not reach your network, this machine or the tunnel, and sends no mail'
    say '  - what they do on the internet comes from your public address, so they can learn it'
    say '  - how many containers run here you see, but not whose. As root you could read their memory, and they know that'
    if command -v nvidia-smi >/dev/null; then
        if [ "$allow_runc" = yes ]; then
            say '  - containers that use a GPU may run WITHOUT that sandbox, where it cannot hand GPUs over: the operator of the'
            say '    installation allows it. Whoever broke out of such a container would be root on this machine'
        else
            say '  - GPUs are used only if the sandbox can hand them over'
        fi
    fi
}

agree() {
    step='ask'
    packages="$(missing_packages)"
    say ''
    say "This machine will join $base_url. It will"
    [ -z "$packages" ] || say "  - install Debian packages: $packages"
    say "  - put Moorage into $root, its settings into $settings, and moor-node into $commands"
    say "  - open a WireGuard tunnel to the installation, which may then start containers here"
    say '  - add firewall rules for the tunnel and for those containers, and run two services'
    say 'It opens no port to the world and changes nothing else. `moor-node leave` undoes it.'
    [ "$infrastructure" = operator ] || say_what_lending_means
    [ "$yes" = no ] || return 0
    # The script itself may come through a pipe: the answer comes from whoever sits there.
    (: </dev/tty) 2>/dev/null || fail 'There is no terminal to ask on. Add --yes to agree beforehand.'
    printf 'Go on? [y/N] ' >/dev/tty
    read -r answer </dev/tty
    case "$answer" in y | Y | yes) ;; *) say 'Nothing was changed.'; trap - EXIT; exit 0 ;; esac
}

install_packages() {
    packages="$(missing_packages)"
    export DEBIAN_FRONTEND=noninteractive
    if [ -n "$(dpkg --audit)" ]; then
        begin 'set up packages whose installation was interrupted'
        dpkg --configure -a >/dev/null || fail 'dpkg --configure -a failed; its words are above.'
    fi
    [ -n "$packages" ] || return 0
    begin "install ${packages% }"
    update_lists
    # In its first minutes a machine often upgrades itself: that is waited for.
    # shellcheck disable=SC2086 - a list of words
    apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends --no-remove $packages >/dev/null || fail 'apt-get install failed; its words are above.'
}

update_lists() {
    # For the lists, unlike for the packages, apt-get does not wait until another is done with them.
    tries=0
    until words="$(apt-get update -qq 2>&1 >/dev/null)"; do
        tries=$((tries + 1))
        case "$words" in *lists/lock*) ;; *) tries=60 ;; esac
        [ "$tries" -lt 60 ] || fail "apt-get update failed: $words"
        sleep 5
    done
}

check_engine() {
    begin 'look for a Docker engine that answers'
    docker version >/dev/null 2>&1 && return 0
    [ ! -d /run/systemd/system ] || systemctl enable --now docker >/dev/null 2>&1 || true
    words="$(docker version 2>&1 >/dev/null)" && return 0
    fail "Docker is installed, but its engine does not answer: $words
Start it: systemctl start docker, or dockerd where there is no systemd."
}

install_moorage() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
        || fail "It has $(python3 --version); Python 3.11 or newer is needed (Debian 12, Ubuntu 24.04)."
    if [ ! -f "$here/.complete" ]; then
        begin 'fetch Moorage'
        rm -rf "$here"
        mkdir -p "$here"
        curl --proto '=https' --tlsv1.2 -fsS "$base_url/api/v1/machines/moorage.tar.gz" -o "$here.tar.gz" \
            || fail "$base_url did not send it."
        echo "$bundle_sha256  $here.tar.gz" | sha256sum --check --quiet \
            || fail 'What was sent is not what this script was made for. Get a new command: `moor machines add`.'
        tar -xzf "$here.tar.gz" -C "$here"
        rm "$here.tar.gz"
        begin 'install what Moorage needs'
        "$here/scripts/setup" run || fail 'Its Python packages could not be installed; the words are above.'
        touch "$here/.complete"
    fi
    ln -sfn "$here" "$root/current"
    mkdir -p "$commands"
    ln -sfn "$root/current/.venv/bin/moor-node" "$commands/moor-node"
}

set_up_sandbox() {
    [ "$infrastructure" != operator ] || return 0
    begin 'set up the sandbox, and try it'
    "$python" -m moorage.machines.on_machine sandbox || fail 'Containers cannot run in a sandbox here; why is above.'
}

join() {
    begin 'join'
    result=0
    MOORAGE_JOIN_TOKEN="$token" "$python" -m moorage.machines.on_machine join --url "$base_url" --folder "$settings" \
        ${MOORAGE_CA_FILE:+--ca-file "$MOORAGE_CA_FILE"} || result=$?
    case "$result" in
        0) ;;
        3) stop_at 'The installation did not let it in; its words are above.' 'This command works no longer. Run another one: what is installed by now stays.' ;;
        *) fail 'The installation did not let it in; its words are above.' ;;
    esac
}

write_service() {
    cat >"$services/$1.service.new" <<END
[Unit]
Description=$2
After=network-online.target docker.service $3
Wants=network-online.target

[Service]
ExecStart=$4
Restart=always
RestartSec=2

[Install]
WantedBy=multi-user.target
END
    mv "$services/$1.service.new" "$services/$1.service"
}

start_services() {
    begin 'start the services'
    mkdir -p "$services"
    write_service moorage-tunnel 'The tunnel to a Moorage installation' '' \
        "$python -m moorage.machines.on_machine tunnel --folder $settings"
    write_service moorage-node 'Runs containers of a Moorage installation' moorage-tunnel.service \
        "$root/current/.venv/bin/moor-node serve --settings $settings/node.toml"
    if [ ! -d /run/systemd/system ]; then
        say "There is no systemd here. Keep these two running:"
        sed -n 's/^ExecStart=/  /p' "$services/moorage-tunnel.service" "$services/moorage-node.service"
        return 0
    fi
    systemctl daemon-reload
    systemctl enable --quiet moorage-tunnel moorage-node
    systemctl restart moorage-tunnel moorage-node || fail 'See: journalctl -u moorage-tunnel -u moorage-node'
    begin 'wait until the tunnel is open'
    "$python" -m moorage.machines.on_machine check --wait-s 60 --folder "$settings" \
        || stop_at 'This machine has joined, but the installation cannot reach it; why is above.' 'It goes on trying: once that is fixed, it is ready by itself.'
}

main() {
    trap ended EXIT
    # Not every shell calls the former when it is interrupted.
    trap interrupted INT TERM
    yes=no
    case "${1:-}" in
        --yes) yes=yes ;;
        '') ;;
        *) fail 'It knows --yes. The token comes by standard input: use the command as `moor machines add` prints it.' ;;
    esac
    token=''
    [ -t 0 ] || token="$(head -c 200)"
    case "$token" in moor_join_*) ;; *) fail 'It needs the token that `moor machines add` prints.' ;; esac
    check_machine
    agree
    install_packages
    check_engine
    install_moorage
    set_up_sandbox
    join
    start_services
    say ''
    say 'Done. Where you got this command, the machine is shown as active as soon as it answers through the tunnel.'
}

# Nothing happens before the whole script is here.
main "$@"
