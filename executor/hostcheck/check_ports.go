package hostcheck

import (
	"fmt"
	"net/netip"
	"time"
)

// firstPorts are how many of the replicas' ports a host is likely to need: each pair of hosts begins with the first.
const firstPorts = 100

// checkPorts looks for processes on ports that the process on this host, or its replicas, are to listen on.
func checkPorts(f *Facts) (all []Finding) {
	for _, p := range f.Ports {
		address, err := netip.ParseAddrPort(p.Address)
		switch {
		case err != nil, f.DataDir != nil && f.DataDir.Holder > 0 && f.DataDir.Holder == p.PID: // its own
		case f.Role == Controller:
			all = append(all, fail(p.remedy(address.Port()), "the port %d, which the controller is to listen on, is taken by %s", address.Port(), p.owner()))
		case address.Port() < firstReplicaPort+firstPorts:
			all = append(all, warn(p.remedy(address.Port()), "the port %d, which is among the first that replicas listen on, is taken by %s", address.Port(), p.owner()))
		}
	}
	if len(all) == 0 && f.Wants.Replication {
		return []Finding{okf("the ports %d to %d, the first that replicas listen on, are not taken", firstReplicaPort, firstReplicaPort+firstPorts-1)}
	}
	return all
}

func (p Port) owner() string {
	if p.PID == 0 {
		return "a process that cannot be seen here, on " + p.Address
	}
	return fmt.Sprintf("process %d (%s), on %s", p.PID, p.Process, p.Address)
}

func (p Port) remedy(port uint16) string {
	return fmt.Sprintf("see `ss -ltnp 'sport = :%d'`, and have that process listen elsewhere", port)
}

// checkPools judges the disks of pools of files.
func checkPools(f *Facts) (all []Finding) {
	for _, l := range f.PoolDisks {
		what := "in the pool " + l.Path
		switch {
		case l.Err != "":
			all = append(all, fail("look at the filesystem of the pool, and into the kernel's log (dmesg)", "a durable write %s failed after %d: %s", what, l.Writes, l.Err))
		case l.P99 >= slowWrite:
			all = append(all, warn("put the pool on a faster disk, or see what else writes there: `iostat -x 1`", "the pool's disk is slow: %s", l.figures(what)).with(l.Buckets))
		default:
			all = append(all, okf("%s", l.figures(what)).with(l.Buckets))
		}
	}
	return all
}

// checkSyncs judges the durable writes of the Raft log itself.
func checkSyncs(f *Facts) []Finding {
	const enough = 100
	if f.RaftSyncs == nil {
		return nil // a node, or an older build
	}
	total := uint64(0)
	for _, b := range f.RaftSyncs.Buckets {
		total += b.Count
	}
	if total < enough {
		return []Finding{okf("its Raft log has made %d durable writes since it started", total).with(f.RaftSyncs.Buckets)}
	}
	slow := share(f.RaftSyncs.Buckets, 0.99)
	figures := fmt.Sprintf("99 %% of the %d durable writes of its Raft log since it started took %s or less", total, slow)
	if slow == 0 {
		figures = fmt.Sprintf("more than 1 %% of the %d durable writes of its Raft log since it started took longer than %s", total, bucketBounds[len(bucketBounds)-1])
		slow = time.Hour
	}
	switch {
	case slow > tooSlowWrite:
		return []Finding{fail(fasterDisk, "the Raft log's disk is too slow for a controller, which may lose leadership: %s", figures).with(f.RaftSyncs.Buckets)}
	case slow > slowWrite+2*time.Millisecond: // the bound of the bucket that it is in
		return []Finding{warn(fasterDisk, "the Raft log's disk is slow: %s", figures).with(f.RaftSyncs.Buckets)}
	}
	return []Finding{okf("%s", figures).with(f.RaftSyncs.Buckets)}
}
