#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NVMe over RDMA with nothing of nicemu: the kernel's nvmet target and nvme-rdma host, over rxe, in one guest.
# The reference for what NVMe-oF over RoCEv2 looks like on the wire. Run it in a guest, as root:
#   nicemu vm run -- bash examples/nvme_tcp/kernel_over_rxe.sh
# Sources: Linux Documentation, nvmet (configfs); nvme-connect(1); rdma-link(8).
set -euo pipefail
address=10.9.9.1 name=disk

# rdma_cm finds no route over the loopback interface, so the link is a dummy one.
modprobe -a dummy rdma_rxe nvmet nvmet-rdma nvme-rdma
modprobe brd rd_nr=1 rd_size=16384
ip link add dummy0 type dummy
ip link set dummy0 mtu 4300
ip address add $address/24 dev dummy0
ip link set dummy0 up
rdma link add rxe9 type rxe netdev dummy0

mount -t configfs none /sys/kernel/config
target=/sys/kernel/config/nvmet
mkdir -p $target/subsystems/$name/namespaces/1 $target/ports/1
echo 1 > $target/subsystems/$name/attr_allow_any_host
echo -n /dev/ram0 > $target/subsystems/$name/namespaces/1/device_path
echo 1 > $target/subsystems/$name/namespaces/1/enable
echo rdma > $target/ports/1/addr_trtype
echo ipv4 > $target/ports/1/addr_adrfam
echo $address > $target/ports/1/addr_traddr
echo 4420 > $target/ports/1/addr_trsvcid
ln -s $target/subsystems/$name $target/ports/1/subsystems/$name

nvme connect -t rdma -a $address -s 4420 -n $name
for _ in $(seq 50); do compgen -G '/dev/nvme*n1' > /dev/null && break; sleep 0.1; done
disk=$(compgen -G '/dev/nvme*n1')

head -c 1M /dev/urandom > /tmp/data
dd if=/tmp/data of="$disk" bs=64k oflag=direct status=none
nvme flush "$disk" -n 1
dd if="$disk" bs=64k count=16 iflag=direct status=none | cmp - /tmp/data
cmp -n $((1 << 20)) /tmp/data /dev/ram0
grep . /sys/class/infiniband/rxe9/ports/1/hw_counters/{sent,rcvd}_pkts
nvme disconnect -n $name
echo "1 MiB written, flushed and read back over rxe, and right"
