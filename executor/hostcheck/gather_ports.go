package hostcheck

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Port is one that a process of the host listens on.
type Port struct {
	Address string `json:"address"` // with the port
	PID     int    `json:"pid,omitempty"`
	Process string `json:"process,omitempty"` // empty: this process may not see whose it is
}

// firstReplicaPort and lastReplicaPort are of the ports that replicas use, each volume one on both of its hosts.
const firstReplicaPort, lastReplicaPort = 7800, 65535

// socketListens is the state of a TCP socket that listens, in the kernel's list.
const socketListens = "0A"

// wantedPorts has those of the host's listening sockets that stand in the way: on the addresses that the process on
// it is to listen on, and of a node with replication on the ports of replicas. DRBD's own sockets belong to no process.
func (g *Gatherer) wantedPorts() (all []Port) {
	inodes := map[string]int{}
	for _, name := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		for line := range strings.Lines(g.text(name)) {
			address, inode, ok := listening(line)
			if ok && inode != "0" && g.wants(address) {
				inodes[inode] = len(all)
				all = append(all, Port{Address: address.String()})
			}
		}
	}
	if len(all) > 0 {
		g.nameOwners(all, inodes)
	}
	slices.SortFunc(all, func(a, b Port) int { return strings.Compare(a.Address, b.Address) })
	return all
}

// wants tells whether a socket with the address keeps another one of this host from what it is to listen on.
func (g *Gatherer) wants(taken netip.AddrPort) bool {
	for _, wanted := range g.Listen {
		if overlaps(taken, wanted) {
			return true
		}
	}
	if own, err := netip.ParseAddr(g.ReplicationAddress); err == nil && taken.Port() >= firstReplicaPort {
		return overlaps(taken, netip.AddrPortFrom(own, taken.Port()).String())
	}
	return false
}

func overlaps(taken netip.AddrPort, wanted string) bool {
	at := strings.LastIndex(wanted, ":")
	port, err := strconv.ParseUint(wanted[at+1:], 10, 16)
	if at < 0 || err != nil || uint16(port) != taken.Port() {
		return false
	}
	own, err := netip.ParseAddr(strings.Trim(wanted[:at], "[]"))
	return err != nil || own.IsUnspecified() || taken.Addr().IsUnspecified() || own.Unmap() == taken.Addr().Unmap()
}

// listening reads a line of the kernel's list of sockets.
func listening(line string) (address netip.AddrPort, inode string, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 10 || fields[3] != socketListens {
		return address, "", false
	}
	ip, port, _ := strings.Cut(fields[1], ":")
	raw, err := hex.DecodeString(ip)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(raw)%4 != 0 {
		return address, "", false
	}
	for word := range slices.Chunk(raw, 4) { // each word of the address is in the order of the processor, which is little-endian
		slices.Reverse(word)
	}
	addr, valid := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), fields[9], valid
}

// nameOwners finds the processes that have the sockets open.
func (g *Gatherer) nameOwners(all []Port, byInode map[string]int) {
	links, err := filepath.Glob(g.path("proc/[0-9]*/fd/*"))
	if err != nil {
		return
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		inode, ok := strings.CutPrefix(strings.TrimSuffix(target, "]"), "socket:[")
		if i, known := byInode[inode]; ok && known {
			all[i].PID, all[i].Process = g.processOf(link)
		}
	}
}

func (g *Gatherer) processOf(link string) (pid int, name string) {
	folder := filepath.Dir(filepath.Dir(link))
	pid, _ = strconv.Atoi(filepath.Base(folder)) // it is a number
	comm, err := os.ReadFile(filepath.Join(folder, "comm"))
	if err != nil {
		return pid, ""
	}
	return pid, strings.TrimSpace(string(comm))
}
