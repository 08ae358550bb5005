package fsm

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyRegisterNode records a host: a host is its name, its host id and its pool
// ids (S17). A new boot ends no staging: the host must report what it observes.
func applyRegisterNode(s *State, m Meta, c *fsmpb.RegisterNode) (*fsmpb.Outcome, *Rejection) {
	n, rej := nodeFrom(c)
	if rej != nil {
		return nil, rej
	}
	old, known := s.Node(n.ID)
	if known {
		if rej := checkSameHost(old, &n); rej != nil {
			return nil, rej
		}
		if rej := s.checkNotLate(m, old); rej != nil {
			return nil, rej
		}
	}
	if rej := s.checkSameSite(old, &n); rej != nil {
		return nil, rej
	}
	if at := s.cluster.FeatureLevel; n.FeatureLevel < at {
		return nil, Reject(Unsupported, "register node %s: it understands feature level %d, the cluster runs at %d: upgrade it", n.ID, n.FeatureLevel, at)
	}
	if rej := s.checkIdentityFree(&n); rej != nil {
		return nil, rej
	}
	if rej := s.checkLossRecorded(old, &n); rej != nil {
		return nil, rej
	}
	n.Registered = m.Epoch
	n.Incarnation = s.incarnationOf(old, &n, s.metIncarnation(c))
	n.Cordoned = known && old.Host == n.Host && old.Cordoned
	if known {
		n.OutOfService = old.OutOfService // of the name, whichever host has it
	}
	n.Fence = s.fenceAtRegistration(m, old, &n)
	n.Maintenance = maintenanceAfter(old, &n)
	if known && old.Host == n.Host && old.Boot != n.Boot {
		s.resetAfterBoot(&n)
		s.abortGroupsOn(n.ID, Busy, "node "+string(n.ID)+" was booted again: no freeze outlives that")
	}
	if s.level2() && known && old.Host == n.Host {
		n.keepKnownReplication(old)
	}
	s.putNode(n)
	if known && old.Host == n.Host && old.State == NodeUnreachable {
		s.bumpGenerations(&n)
	}
	if known && old.IsFenced() && !n.IsFenced() {
		s.announceServing(&n)
	}
	if !known || old.Replication != n.Replication {
		s.announcePeers(&n)
	}
	s.runSweeps()
	if !known || old.Host != n.Host || old.State != n.State || old.Incarnation != n.Incarnation {
		s.wakeWaiters(n.ID) // a new session gets all of the host's desired state anyway
	}
	return &fsmpb.Outcome{Epoch: m.Epoch.Proto()}, nil
}

// keepKnownReplication keeps the address and key of a host that registers without replication,
// as its module or a tool is missing after an upgrade: without them none of its peers could
// be configured, attached or promoted.
func (n *Node) keepKnownReplication(old *Node) {
	given := n.Replication.Address != "" && n.Replication.PublicKey != ""
	if known := old.Replication.Address != "" && old.Replication.PublicKey != ""; !given && known {
		n.Replication, n.NoNewReplicas = old.Replication, true
	}
}

// nodeFrom reads a host's registration.
func nodeFrom(c *fsmpb.RegisterNode) (Node, *Rejection) {
	n := Node{
		ID: NodeID(c.GetNodeId()), Host: HostID(c.GetHostId()), Boot: c.GetBootId(), Site: c.GetSite(),
		MaxVolumes: c.GetMaxVolumes(), Version: clip(c.GetVersion()), FeatureLevel: max(1, c.GetFeatureLevel()), State: NodeReachable,
	}
	for _, id := range []struct{ what, id string }{{"node id", c.GetNodeId()}, {"host id", c.GetHostId()}, {"boot id", c.GetBootId()}} {
		if rej := checkID(id.what, id.id); rej != nil {
			return Node{}, rej
		}
	}
	for _, p := range c.GetPools() {
		if rej := checkPool(p); rej != nil {
			return Node{}, rej
		}
		n.Pools = append(n.Pools, Pool{
			ID: PoolID(p.GetPoolId()), Backend: p.GetBackend(), Capacity: p.GetCapacityBytes(),
			OvercommitPercent: cmp.Or(p.GetOvercommitPercent(), 100), MinFree: p.GetMinFreeBytes(),
		})
	}
	slices.SortFunc(n.Pools, func(a, b Pool) int { return cmp.Compare(a.ID, b.ID) })
	for i := 1; i < len(n.Pools); i++ {
		if n.Pools[i].ID == n.Pools[i-1].ID {
			return Node{}, Reject(Invalid, "register node %s: pool %s is named twice", n.ID, n.Pools[i].ID)
		}
	}
	var rej *Rejection
	if n.Replication, rej = nodeReplicationOf(c.GetReplication()); rej != nil {
		return Node{}, rej
	}
	if n.Addresses, rej = addressesFrom(c.GetAddresses()); rej != nil {
		return Node{}, rej
	}
	n.Labels, rej = labelsFrom(c.GetLabels())
	return n, rej
}

// nodeReplicationOf reads the part of a registration about replicas of replicated volumes.
func nodeReplicationOf(c *fsmpb.Replication) (NodeReplication, *Rejection) {
	r := nodeReplicationFrom(c)
	r.Version = clip(r.Version)
	switch {
	case len(r.Address) > maxIDBytes:
		return r, Reject(Invalid, "the address for replicas has %d bytes, more than %d", len(r.Address), maxIDBytes)
	case r.PublicKey != "" && len(r.PublicKey) != publicKeyLen:
		return r, Reject(Invalid, "the public key for replicas has %d bytes, not %d", len(r.PublicKey), publicKeyLen)
	}
	return r, nil
}

func checkPool(p *fsmpb.Pool) *Rejection {
	if rej := checkID("pool id", p.GetPoolId()); rej != nil {
		return rej
	}
	if p.GetCapacityBytes() < 0 || p.GetMinFreeBytes() < 0 {
		return Reject(Invalid, "pool %s: a capacity or reserve is negative", p.GetPoolId())
	}
	return nil
}

// checkSameHost refuses a name that another host holds, until that host is recorded as
// lost (S17). A lost host does not come back with what it held.
func checkSameHost(old, n *Node) *Rejection {
	switch {
	case old.State == NodeLost && old.Host == n.Host:
		return Reject(Precondition, "register node %s: host %s was recorded as lost; it must begin with an empty data folder", n.ID, n.Host)
	case old.State == NodeLost:
		return nil
	case old.Host != n.Host:
		return Reject(Precondition, "register node %s: the name belongs to host %s; record that host as lost first", n.ID, old.Host)
	}
	for i := range old.Pools {
		if n.pool(old.Pools[i].ID) == nil {
			return Reject(Precondition, "register node %s: its pool %s is missing; mount it, or record the host as lost first", n.ID, old.Pools[i].ID)
		}
	}
	return nil
}

// checkSameSite refuses to move a host with anything of a volume to another site (S32): two replicas at
// two sites would become two at one. At level 1 sites mean nothing.
func (s *State) checkSameSite(old, n *Node) *Rejection {
	if !s.level2() {
		return nil
	}
	known := old != nil && old.Host == n.Host
	if known && old.site() == n.site() {
		return nil // also one from level 1 that is no name
	}
	if n.Site != "" {
		if rej := CheckSite(n.Site); rej != nil {
			return rej
		}
	}
	if !known {
		return nil
	}
	for v := range s.VolumesOn(n.ID) {
		return Reject(Precondition, "register node %s: it is at site %s, and has a replica, a publication or an unfinished teardown of volume %s: it cannot be moved to site %s", n.ID, old.site(), v.ID, n.site())
	}
	for snap := range s.SnapshotsOn(n.ID) {
		return Reject(Precondition, "register node %s: it is at site %s, and keeps snapshot %s: it cannot be moved to site %s", n.ID, old.site(), snap.ID, n.site())
	}
	return nil
}

// checkNotLate refuses a registration that was proposed before another one of its node was applied:
// it may be of an earlier session that has long ended, or of an earlier boot, and the host that is
// there now would not learn that nothing it says counts any more. A host that is there asks again.
func (s *State) checkNotLate(m Meta, old *Node) *Rejection {
	known := s.level2() && m.Proposed != 0 && old.Registered.Incarnation == s.cluster.Incarnation
	if !known || m.Proposed >= old.Registered.Index {
		return nil
	}
	return Reject(Busy, "register node %s: it was registered at index %d, after this registration was proposed: try again", old.ID, old.Registered.Index)
}

// checkIdentityFree refuses a host id or a pool that another node has (S17):
// a copied disk would be counted, and written, twice.
func (s *State) checkIdentityFree(n *Node) *Rejection {
	for other := range s.Nodes() {
		if other.ID == n.ID {
			continue
		}
		if other.Host == n.Host {
			return Reject(Precondition, "register node %s: host id %s belongs to node %s", n.ID, n.Host, other.ID)
		}
		for i := range n.Pools {
			if other.State != NodeLost && other.pool(n.Pools[i].ID) != nil {
				return Reject(Precondition, "register node %s: pool %s belongs to node %s", n.ID, n.Pools[i].ID, other.ID)
			}
		}
	}
	return nil
}

// checkLossRecorded refuses a name or a pool of a lost host while what that one held is still
// counted there (S108, S118).
func (s *State) checkLossRecorded(old, n *Node) *Rejection {
	if old != nil && s.beingLost(old.Host) {
		return Reject(Busy, "register node %s: the loss of its host %s is still being recorded: try again in a few seconds", n.ID, old.Host)
	}
	for i := range s.cluster.Sweeps {
		lost, ok := s.Node(s.cluster.Sweeps[i].Node)
		if !ok || s.cluster.Sweeps[i].Kind != SweepLost {
			continue
		}
		for j := range n.Pools {
			if lost.pool(n.Pools[j].ID) != nil {
				return Reject(Busy, "register node %s: the loss of host %s, which had its pool %s, is still being recorded: try again in a few seconds", n.ID, lost.Host, n.Pools[j].ID)
			}
		}
	}
	return nil
}

// maxIncarnationsAhead is how far above the cluster's an incarnation is believed that a host says it met.
const maxIncarnationsAhead = 1 << 20

// metIncarnation is the highest incarnation that the host met. One with this cluster's counter and another id is another
// life of the cluster, restored from the same backup: it counts as one above, so that this cluster replaces its own.
func (s *State) metIncarnation(c *fsmpb.RegisterNode) uint64 {
	met, id := c.GetIncarnation(), c.GetIncarnationId()
	if s.level3() {
		met = min(met, s.cluster.Incarnation+maxIncarnationsAhead) // a host cannot use up the numbers
	}
	if met == s.cluster.Incarnation && len(id) > 0 && !bytes.Equal(id, s.cluster.IncarnationID) {
		return met + 1
	}
	return met
}

// incarnationOf is the incarnation a host may act for (S1). A new host takes the
// cluster's, unless it acted for another. A known one is never adopted by
// registering again: that takes an operator; once adopted, it may still name the
// older one until it has received the new one.
func (s *State) incarnationOf(old, n *Node, claimed uint64) uint64 {
	at := s.cluster.Incarnation
	switch known := old != nil && old.Host == n.Host; {
	case s.level3() && claimed > at:
		return claimed
	case !known && claimed == 0:
		return at
	case !known:
		return claimed
	case old.Incarnation == at && claimed > at:
		return claimed
	}
	return old.Incarnation
}

// resetAfterBoot marks what a host staged or bound in an earlier boot as not done; the
// intents stay until the host reports what it observes (S16).
func (s *State) resetAfterBoot(n *Node) {
	if s.level2() {
		s.beginSweep(SweepBoot, n, "")
		return
	}
	var changed []Volume
	for v := range s.VolumesOn(n.ID) {
		if updated, reset := v.withBootReset(n.ID, n.Host); reset {
			changed = append(changed, updated)
		}
	}
	for _, v := range changed {
		s.putVolume(v)
	}
}

// withBootReset is the volume after its host was booted again.
func (v *Volume) withBootReset(node NodeID, host HostID) (updated Volume, changed bool) {
	updated = *v
	if p := v.Publication(node); p != nil && p.Host == host && p.Staging != nil {
		updated = v.withPublication(p.withNothingDone())
		updated, changed = updated.withoutLimits(host), true
	}
	updated, reset := updated.withObservationReset(host)
	return updated, changed || reset
}

// withNothingDone is the publication with everything intended and nothing reported done.
func (p *Publication) withNothingDone() Publication {
	q := *p
	staging := *p.Staging
	staging.Done = false
	q.Staging, q.Targets = &staging, slices.Clone(p.Targets)
	for i := range q.Targets {
		q.Targets[i].Done = false
	}
	return q
}

// pool is the host's pool of that id, nil when it has none.
func (n *Node) pool(id PoolID) *Pool {
	i, ok := slices.BinarySearchFunc(n.Pools, id, func(p Pool, id PoolID) int { return cmp.Compare(p.ID, id) })
	if !ok {
		return nil
	}
	return &n.Pools[i]
}
