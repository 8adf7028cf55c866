#!/usr/bin/env bash
# For a machine with a GPU that reaches no package registry: `pack FOLDER` fetches an engine (Debian's packages) and Moorage's
# Python packages on a machine that does, as two archives; `unpack FOLDER` puts them in place there. DEBIAN_MIRROR is where
# Debian's packages come from; without it, where the packing machine's own come from. Then, on the machine with the GPU:
#   PYTHONPATH=/opt/moorage/site:src:bench python3 bench/gpu.py
set -euo pipefail
folder="$(realpath -m "${2:?say pack FOLDER or unpack FOLDER}")"
python=3.12          # of the machine with the GPU
suite=trixie         # its Docker 26 knows CDI
packages=(docker.io containerd runc docker-cli iptables libip4tc2 libip6tc2 libxtables12 libseccomp2)

pack() {
    local root="$folder/work"
    mkdir -p "$root"/{lists/partial,cache/archives/partial,debs,files,engine/bin,engine/lib}
    local mirror="${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)}"
    [ -n "$mirror" ] || { echo "set DEBIAN_MIRROR: this machine's own packages are not Debian's" >&2; exit 1; }
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$root/sources.list"
    local apt=(apt-get -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o Dir::Etc::sourcelist="$root/sources.list"
        -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$root/lists" -o Dir::Cache="$root/cache"
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
    "${apt[@]}" update
    (cd "$root/debs" && "${apt[@]}" download "${packages[@]/%/:amd64}" && for one in *.deb; do dpkg-deb -x "$one" ../files; done)
    (cd "$root/files/usr" && cp -a bin/{containerd,containerd-shim-runc-v2,docker} sbin/{dockerd,docker-proxy,runc,xtables-legacy-multi} ../../engine/bin/ \
        && cp -a lib/x86_64-linux-gnu/lib{seccomp,xtables,ip4tc,ip6tc}.so* lib/x86_64-linux-gnu/xtables ../../engine/lib/)
    tar -C "$root" -c engine | xz -T0 -7 > "$folder/engine.tar.xz"
    "$(command -v uv || echo .venv/tools/bin/uv)" pip install --python-version "$python" --python-platform x86_64-manylinux_2_39 --no-deps --target "$root/site" -r requirements-run.lock
    tar -C "$root" -c site | xz -T0 -7 > "$folder/site.tar.xz"
}

unpack() {
    mkdir -p /opt/moorage
    if [ -e "$folder/engine.tar.xz" ]; then
        tar -C /opt/moorage -xJf "$folder/engine.tar.xz"
        local from; from="$(echo /opt/moorage/eng*)"
        cp -a "$from"/bin/* /usr/bin/
        # A library that the machine has is its own.
        for library in "$from"/lib/*; do
            [ -e "/usr/lib/x86_64-linux-gnu/$(basename "$library")" ] || cp -a "$library" /usr/lib/x86_64-linux-gnu/
        done
        for name in {iptables,ip6tables}{,-save,-restore}; do ln -sf xtables-legacy-multi "/usr/bin/$name"; done
        ln -sf /usr/bin/dockerd /usr/bin/docker-proxy /usr/sbin/ 2>/dev/null || true
        ldconfig
    fi
    if [ -e "$folder/site.tar.xz" ]; then
        tar -C /opt/moorage -xJf "$folder/site.tar.xz"
        # Moorage asks for its own version.
        mkdir -p /opt/moorage/site/moorage-0.1.0.dist-info
        printf 'Metadata-Version: 2.1\nName: moorage\nVersion: 0.1.0\n' > /opt/moorage/site/moorage-0.1.0.dist-info/METADATA
    fi
}

"$1"
