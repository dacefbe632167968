#!/bin/sh
# railwright-host: shows and applies host.conf, the network contract of this server.
#   railwright-host show            print the true state, as `railwright check --configs` reads it
#   railwright-host check           say what differs from host.conf; exit 1 when something does
#   railwright-host apply           print the commands that would mend it (a dry run)
#   railwright-host apply --yes     run them; running it twice changes nothing the second time
#   railwright-host name KERNEL     print the name that host.conf gives to a port (for udev)
#   railwright-host nccl-topo FILE  print NCCL's dumped topology with rail and plane of every adapter
set -euf
root=${RAILWRIGHT_ROOT:-}
conf=${RAILWRIGHT_CONF:-$root/etc/railwright/host.conf}
nccl=${RAILWRIGHT_NCCL:-$root/etc/nccl.conf}
run=no
differs=0

[ -r "$conf" ] || { echo "railwright-host: $conf is missing" >&2; exit 3; }

value() { # KEY LINE: the value of KEY= in a line of host.conf
    for word in $2; do
        case $word in "$1="*) echo "${word#*=}"; return ;; esac
    done
}
content() { if [ -r "$1" ]; then tr -d '\n' <"$1"; fi; }
section() { echo "## $*"; }

show_port() {
    name=$1 rdma=$(value rdma "$2")
    net=$root/sys/class/net/$name
    [ -z "$rdma" ] || section "nic $name $rdma"
    section "cat /sys/class/net/$name/mtu"; content "$net/mtu"; echo
    section "ip -br address show dev $name"; ip -br address show dev "$name" 2>/dev/null || true
    if command -v mlnx_qos >/dev/null 2>&1; then section "mlnx_qos -i $name"; mlnx_qos -i "$name" || true; fi
    if command -v ethtool >/dev/null 2>&1; then section "ethtool -a $name"; ethtool -a "$name" 2>/dev/null || true; fi
    if [ -n "$rdma" ]; then
        section "cat /sys/class/infiniband/$rdma/tc/1/traffic_class"
        content "$root/sys/class/infiniband/$rdma/tc/1/traffic_class"; echo
        gid=$(value gid "$2")
        if [ -n "$gid" ]; then
            section "cat /sys/class/infiniband/$rdma/ports/1/gid_attrs/types/$gid"
            content "$root/sys/class/infiniband/$rdma/ports/1/gid_attrs/types/$gid"; echo
        fi
    fi
    section "cat /sys/class/net/$name/ecn/roce_np/cnp_dscp"; content "$net/ecn/roce_np/cnp_dscp"; echo
    for priority in 0 1 2 3 4 5 6 7; do
        section "cat /sys/class/net/$name/ecn/roce_rp/enable/$priority"; content "$net/ecn/roce_rp/enable/$priority"; echo
    done
    for what in speed width; do
        section "cat /sys/class/net/$name/device/current_link_$what"; content "$net/device/current_link_$what"; echo
    done
}

want() { # WHAT NOW WANTED COMMAND…: run (or print) the command when the state is not the wanted one
    subject=$1 found=$2 asked=$3; shift 3
    [ "$found" = "$asked" ] && return 0
    differs=1
    echo "# $subject is '$found', wanted '$asked'"
    if [ "$mode" = apply ]; then
        case $1 in put) echo "echo $3 >$2" ;; *) echo "$*" ;; esac
        if [ "$run" = yes ]; then "$@"; fi
    fi
}
put() { printf '%s\n' "$2" >"$root$1"; }

apply_port() {
    name=$1 line=$2 rdma=$(value rdma "$2")
    net=/sys/class/net/$name
    wanted=$(value mtu "$line"); [ -z "$wanted" ] || want "MTU of $name" "$(content "$root$net/mtu")" "$wanted" ip link set dev "$name" mtu "$wanted"
    if command -v mlnx_qos >/dev/null 2>&1; then
        state=$(mlnx_qos -i "$name" 2>/dev/null || true)
        wanted=$(value trust "$line")
        [ -z "$wanted" ] || want "trust of $name" "$(echo "$state" | sed -n 's/^Priority trust state: *//p')" "$wanted" mlnx_qos -i "$name" --trust "$wanted"
        wanted=$(value pfc "$line")
        if [ -n "$wanted" ]; then
            mask=""
            for priority in 0 1 2 3 4 5 6 7; do
                case ",$wanted," in *",$priority,"*) bit=1 ;; *) bit=0 ;; esac
                mask="$mask${mask:+,}$bit"
            done
            now=$(echo "$state" | sed -n 's/^[[:space:]]*enabled[[:space:]]*//p' | sed 's/[[:space:]]*$//; s/[[:space:]][[:space:]]*/,/g')
            want "PFC of $name" "$now" "$mask" mlnx_qos -i "$name" --pfc "$mask"
        fi
        for pair in $(value dscp "$line" | tr , ' '); do
            dscp=${pair%:*} priority=${pair#*:}
            padded=$(printf '%02d' "$dscp")
            now=$(echo "$state" | sed -n "s/^[[:space:]]*prio:\([0-7]\) dscp:\(.*,\)\{0,1\}$padded,.*/\1/p" | head -n 1)
            want "priority of DSCP $dscp on $name" "$now" "$priority" mlnx_qos -i "$name" --dscp2prio "set,$dscp,$priority"
        done
    fi
    if command -v ethtool >/dev/null 2>&1 && [ "$(value pause "$line")" = off ]; then
        now=$(ethtool -a "$name" 2>/dev/null | sed -n 's/^[RT]X:[[:space:]]*//p' | sort -u | tr '\n' ' ')
        want "global pause of $name" "$now" "off " ethtool -A "$name" rx off tx off
    fi
    wanted=$(value traffic_class "$line")
    if [ -n "$wanted" ] && [ -n "$rdma" ]; then
        path=/sys/class/infiniband/$rdma/tc/1/traffic_class
        want "traffic class of $rdma" "$(content "$root$path" | sed 's/.*=//')" "$wanted" put "$path" "$wanted"
        if command -v cma_roce_tos >/dev/null 2>&1; then
            want "traffic class of $rdma for rdma_cm" "$(cma_roce_tos -d "$rdma" 2>/dev/null || true)" "$wanted" cma_roce_tos -d "$rdma" -t "$wanted"
        fi
    fi
    wanted=$(value cnp_dscp "$line")
    [ -z "$wanted" ] || want "CNP DSCP of $name" "$(content "$root$net/ecn/roce_np/cnp_dscp")" "$wanted" put "$net/ecn/roce_np/cnp_dscp" "$wanted"
    wanted=$(value dcqcn "$line")
    if [ -n "$wanted" ]; then
        for priority in 0 1 2 3 4 5 6 7; do
            case ",$wanted," in *",$priority,"*) on=1 ;; *) on=0 ;; esac
            for point in roce_np roce_rp; do
                path=$net/ecn/$point/enable/$priority
                [ ! -e "$root$path" ] || want "DCQCN ($point) of priority $priority on $name" "$(content "$root$path")" "$on" put "$path" "$on"
            done
        done
    fi
}

wrong() { echo "# $*"; differs=1; }

nearest() { # GPU: the distance and the RDMA devices of the adapters nearest to it, as `nvidia-smi topo -m` says on stdin
    tr -d '\033' | sed 's/\[[0-9;]*m//g' | awk -v gpu="GPU$1" '
        $1 == "GPU0" && !columns && !/(^|[ \t])X([ \t]|$)/ {
            for (columns = 0; columns < NF && $(columns + 1) != "CPU"; columns++) title[columns + 1] = $(columns + 1)
            next
        }
        $1 == gpu && columns && !best {
            split("PIX PXB PHB NODE SYS", order, " ")
            for (i = 1; i <= columns; i++) if (title[i] !~ /^GPU/) for (rank = 1; rank <= 5; rank++)
                if ($(i + 1) == order[rank]) {
                    if (!best || rank < best) { best = rank; count = 0 }
                    if (rank == best) found[++count] = title[i]
                }
        }
        /^[ \t]*NIC[0-9]+:/ { sub(":", "", $1); device[$1] = $2 }
        END {
            if (!best) exit
            printf "%s", order[best]
            for (i = 1; i <= count; i++) printf " %s", (found[i] in device) ? device[found[i]] : found[i]
            print ""
        }'
}

check_gpu() { # NAME LINE: is the port's adapter the nearest one of its GPU
    gpu=$(value gpu "$2") rdma=$(value rdma "$2")
    if [ -z "$gpu" ] || [ -z "$rdma" ] || [ -z "$matrix" ]; then return 0; fi
    near=$(printf '%s\n' "$matrix" | nearest "$gpu")
    case "$near " in
    " ") wrong "GPU $gpu has no adapter in nvidia-smi topo -m, host.conf gives it $rdma" ;;
    *" $rdma "*)
        case $near in
        PIX* | PXB*) ;;
        *) wrong "$rdma is ${near%% *} from GPU $gpu: GPUDirect RDMA is off by default across a host bridge" ;;
        esac
        ;;
    *) wrong "$rdma of $1 is not the nearest adapter of GPU $gpu, which is ${near#* } (${near%% *})" ;;
    esac
}

check_slot() { # NAME LINE: the port's own rate, and what its slot carries against all ports in it
    speed=$(value speed "$2") rdma=$(value rdma "$2")
    [ -n "$speed" ] || return 0
    case $(value network "$2") in
    infiniband) now=$(content "$root/sys/class/infiniband/$rdma/ports/1/rate" | awk '{ print $1 * 1000 }') ;;
    *) now=$(content "$root/sys/class/net/$1/speed" 2>/dev/null) ;;
    esac
    case $now in
    "" | -1) ;;
    *) [ "$now" -ge "$(echo "$speed" | awk '{ printf "%d", $1 * 1000 }')" ] || wrong "$1 runs at $now Mb/s, wanted $speed Gb/s" ;;
    esac
    device=$(device_of "$1" "$rdma")
    rate=$(content "$device/current_link_speed") width=$(content "$device/current_link_width")
    if [ -z "$rate" ] || [ -z "$width" ]; then return 0; fi
    slot=$(slot_of "$device") needed=0
    while read -r _ other rest; do
        [ "$(slot_of "$(device_of "$other" "$(value rdma "$rest")")")" = "$slot" ] && needed="$needed+$(value speed "$rest")"
    done <"$conf"
    # Encoding: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, 242 of 256 bytes of a flit at 64 GT/s (PCIe base specification).
    said=$(echo "$rate $width $needed" | awk '{
        share = $1 <= 5 ? 0.8 : $1 <= 32 ? 128 / 130 : 242 / 256
        n = split($NF, part, "+"); for (i = 1; i <= n; i++) total += part[i]
        carries = $1 * share * $(NF - 1)
        if (carries < total) printf "carries %.0f Gb/s (%s GT/s x%s), its ports need %g Gb/s\n", carries, $1, $(NF - 1), total
    }')
    [ -z "$said" ] || wrong "the slot of $1 $said"
}
device_of() { # NAME RDMA: the folder of its PCI device
    if [ -n "$2" ] && [ -e "$root/sys/class/infiniband/$2/device" ]; then
        echo "$root/sys/class/infiniband/$2/device"
    else
        echo "$root/sys/class/net/$1/device"
    fi
}
slot_of() { # DEVICE: its PCI address without the function
    path=$(readlink -f "$1" 2>/dev/null) || path=""
    path=${path##*/}; echo "${path%.*}"
}

check_gpudirect() { # either nvidia_peermem, or dma-buf: open kernel modules of the GPU and a kernel that registers it
    if [ -e "$root/sys/module/amdgpu" ] || [ -e "$root/sys/module/nvidia_peermem" ]; then return 0; fi
    if grep -qs 'Open Kernel Module' "$root/proc/driver/nvidia/version" && grep -qs 'ib_umem_dmabuf_get' "$root/proc/kallsyms"; then
        return 0
    fi
    wrong "GPUDirect RDMA: nvidia_peermem is not loaded, and dma-buf needs NVIDIA's open kernel modules and Linux 5.12"
}

check_host() { # what no setting of a port can mend
    if grep -q '^nic .* gpu=' "$conf"; then check_gpudirect; fi
    if command -v lspci >/dev/null 2>&1; then
        bridges=$(lspci -vvv 2>/dev/null | awk '/^[0-9a-f]/ { at = $1 } /ACSCtl:/ && /SrcValid\+/ { printf " %s", at }')
        [ -z "$bridges" ] || wrong "PCIe ACS is on at$bridges: peer-to-peer traffic goes through the root complex"
    fi
    matrix=""
    if command -v nvidia-smi >/dev/null 2>&1; then matrix=$(nvidia-smi topo -m 2>/dev/null || true); fi
    while read -r word name line; do
        [ "$word" = nic ] || continue
        check_gpu "$name" "$line"
        check_slot "$name" "$line"
    done <"$conf"
    topology=$(sed -n 's/^NCCL_TOPO_FILE=//p' "$nccl" 2>/dev/null || true)
    if [ -n "$topology" ] && ! grep -qs '<net .*rail="' "$root$topology"; then
        wrong "$topology has no rails: dump NCCL's with NCCL_TOPO_DUMP_FILE=FILE, then railwright-host nccl-topo FILE >$topology"
    fi
}

mode=${1:-check}
[ "${2:-}" = "--yes" ] && run=yes
case $mode in
show | check | apply)
    while read -r word name line; do
        [ "$word" = nic ] || continue
        case $mode in
        show) show_port "$name" "$line" ;;
        *) apply_port "$name" "$line" ;;
        esac
    done <"$conf"
    if [ "$mode" = show ]; then
        if [ -r "$nccl" ]; then section "cat /etc/nccl.conf"; cat "$nccl"; fi
        if command -v nvidia-smi >/dev/null 2>&1; then section "nvidia-smi topo -m"; nvidia-smi topo -m || true; fi
    else
        if [ "$mode" = check ]; then check_host; fi
        if [ "$differs" = 0 ]; then echo "as host.conf says"; fi
        [ "$mode" = apply ] || exit "$differs"
    fi
    ;;
name)
    device=$root/sys/class/net/$2/device tries=50
    # The RDMA device appears a moment after the port, when its own driver is loaded.
    while [ -d "$device" ] && [ ! -d "$device/infiniband" ] && [ "$tries" -gt 0 ]; do tries=$((tries - 1)); sleep 0.1; done
    rdma=$(find "$device/infiniband" -mindepth 1 -maxdepth 1 2>/dev/null | sort | head -n 1)
    rdma=${rdma##*/}
    while read -r word name line; do
        if [ "$word" = nic ] && [ -n "$rdma" ] && [ "$(value rdma "$line")" = "$rdma" ]; then echo "$name"; exit 0; fi
    done <"$conf"
    echo "$2"
    ;;
nccl-topo)
    while read -r word name line; do
        [ "$word" = nic ] || continue
        rdma=$(value rdma "$line") rail=$(value rail "$line") plane=$(value plane "$line")
        if [ -z "$rdma" ] || [ -z "$rail" ]; then continue; fi
        echo "/<net name=\"$rdma\"/{"
        echo 's/ rail="[^"]*"//;s/ plane="[^"]*"//'
        echo "s/<net name=\"$rdma\"/& rail=\"$((rail - 1))\" plane=\"$((${plane:-1} - 1))\"/"
        echo "}"
    done <"$conf" | sed -f /dev/stdin "$2"
    ;;
*)
    sed -n '2,8p' "$0" >&2
    exit 2
    ;;
esac
