package fsm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// FenceHolds tells whether nothing that the hosts bound by the owner's fences of the CIDRs held can be
// written by them beside somebody else, and what it waits for while it can (S57). Busy: the fence was
// ended meanwhile.
func (s *State) FenceHolds(cidrs []string, owner FenceOwner) (done bool, waitsFor string, rej *Rejection) {
	for _, cidr := range cidrs {
		f, ok := s.Fence(cidr, owner)
		if !ok {
			return false, "", Reject(Busy, "fence %s: it was ended meanwhile; retry", cidr)
		}
		for _, h := range f.Bound {
			for v := range s.volumesWithTeardownOn(h.Node) {
				if why := s.fenceWaitsFor(v, h.Host); why != "" {
					return false, why, nil
				}
			}
		}
	}
	return true, "", nil
}

// fenceWaitsFor says what keeps the fenced host's use of one volume from being over; empty where the host
// acknowledged its end, the other replica is severed from it, or nobody else could go on.
func (s *State) fenceWaitsFor(v *Volume, host HostID) string {
	former, survivor := v.ActiveReplica(host), v.PeerReplica(host)
	switch {
	case v.Teardown(host) == nil, former == nil, survivor == nil, !s.couldGoOn(v, survivor), s.isSevered(v, survivor):
		return ""
	}
	return fmt.Sprintf("volume %s: node %s has not disconnected host %s", v.ID, survivor.Node, host)
}

// couldGoOn tells whether the replica might be granted, as soon as its kernel is disconnected. Its host is
// there, has the device, and the replica was not left behind.
func (s *State) couldGoOn(v *Volume, survivor *Replica) bool {
	forced := v.Replication.Forced != nil && v.Replication.Forced.Host == survivor.Host
	return s.replicaReachable(survivor) && survivor.State == ReplicaPresent && (!survivor.Outdated || forced)
}

// isSevered tells whether the replica's host observed in the current generation that its kernel is
// disconnected and does not connect again by itself.
func (s *State) isSevered(v *Volume, survivor *Replica) bool {
	n, ok := s.nodeOfReplica(survivor)
	x := survivor.Observed
	return ok && survivor.isOfAttachment(n, x) && x.Generation == v.Replication.Generation &&
		(x.Unconfigured || x.Connection == fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE)
}

// HostsToFence are the hosts that the owner's fences of the CIDRs bind, and where it fences them now also
// those that it would bind, in order.
func (s *State) HostsToFence(cidrs []string, owner FenceOwner, fencing bool) ([]FencedHost, *Rejection) {
	prefixes, rej := fencedPrefixes(cidrs)
	if rej != nil {
		return nil, rej
	}
	var hosts []FencedHost
	var added []netip.Prefix
	for _, p := range prefixes {
		if f, ok := s.Fence(p.String(), owner); ok {
			hosts = append(hosts, f.Bound...)
		} else {
			added = append(added, p)
		}
	}
	for n := range s.Nodes() {
		if fencing && n.State != NodeLost && n.isInside(added) {
			hosts = append(hosts, FencedHost{n.ID, n.Host})
		}
	}
	slices.SortFunc(hosts, FencedHost.compare)
	return slices.Compact(hosts), nil
}
