#!/bin/sh
# railwright-host: shows and applies host.conf, the network contract of this server.
#   railwright-host show            print the true state, as `railwright check --configs` reads it
#   railwright-host check           say what differs from host.conf; exit 1 when something does
#   railwright-host apply           print the commands that would mend it (a dry run)
#   railwright-host apply --yes     run them; running it twice changes nothing the second time
#   railwright-host name KERNEL     print the name that host.conf gives to a port (for udev)
#   railwright-host nccl-topo FILE  print NCCL's dumped topology with rail and plane of every adapter
set -eu
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
content() { [ -r "$1" ] && tr -d '\n' <"$1" || true; }
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
    section "cat /sys/class/net/$name/device/current_link_speed"; content "$net/device/current_link_speed"; echo
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

check_host() { # what no setting of a port can mend
    if ! [ -e "$root/sys/module/nvidia_peermem" ] && ! grep -qs '^CONFIG_DMABUF\|dma_buf' "$root/proc/kallsyms" 2>/dev/null; then
        echo "# GPUDirect RDMA: neither nvidia_peermem nor dma-buf is there"; differs=1
    fi
    if command -v lspci >/dev/null 2>&1 && lspci -vvv 2>/dev/null | grep 'ACSCtl:' | grep -q 'SrcValid+'; then
        echo "# PCIe ACS is on: peer-to-peer traffic goes through the root complex"; differs=1
    fi
    if command -v nvidia-smi >/dev/null 2>&1; then
        echo "# compare with gpu= in host.conf:"; nvidia-smi topo -m || true
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
    else
        [ "$mode" = check ] && check_host
        [ "$differs" = 0 ] && echo "as host.conf says"
        [ "$mode" = apply ] || exit "$differs"
    fi
    ;;
name)
    rdma=$(ls "$root/sys/class/net/$2/device/infiniband" 2>/dev/null | head -n 1)
    while read -r word name line; do
        if [ "$word" = nic ] && [ -n "$rdma" ] && [ "$(value rdma "$line")" = "$rdma" ]; then echo "$name"; exit 0; fi
    done <"$conf"
    echo "$2"
    ;;
nccl-topo)
    script=""
    while read -r word name line; do
        [ "$word" = nic ] || continue
        rdma=$(value rdma "$line") rail=$(value rail "$line") plane=$(value plane "$line")
        [ -z "$rdma" ] || [ -z "$rail" ] || script="$script;s/<net name=\"$rdma\"/& rail=\"$((rail - 1))\" plane=\"$((${plane:-1} - 1))\"/"
    done <"$conf"
    sed "${script#;}" "$2"
    ;;
*)
    sed -n '2,8p' "$0" >&2
    exit 2
    ;;
esac
