package fsm

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Failure is what stops at once, as by a reboot or a loss of power.
type Failure struct {
	Nodes []NodeID
	// NoQuorum: the controllers that are left are no quorum, so that nothing is decided.
	NoQuorum bool
}

// Impact is what a failure does to a volume; a worse one is greater.
type Impact uint8

const (
	// ImpactNone: it is as it was.
	ImpactNone Impact = iota
	// ImpactDegraded: it goes on with fewer copies, or what it may need next cannot be decided.
	ImpactDegraded
	// ImpactUnavailable: nobody can use it until what stopped comes back, or somebody decides.
	ImpactUnavailable
	// ImpactFrozen: its primary goes on running, and its I/O is suspended.
	ImpactFrozen
	// ImpactLost: it is replicated, and no host that is left is known to have every acknowledged write. If what stopped does
	// not come back with its disk, they are lost.
	ImpactLost
)

func (i Impact) String() string {
	return [...]string{"none", "degraded", "unavailable", "frozen", "lost"}[min(i, ImpactLost)]
}

// VolumeImpact is a volume that a failure makes worse.
type VolumeImpact struct {
	Volume *Volume
	Impact Impact
	Reason string
	// Used: it is published to a host.
	Used bool
}

// String is it for people.
func (v *VolumeImpact) String() string {
	return fmt.Sprintf("volume %s would be %s: %s", v.Volume.ID, v.Impact, v.Reason)
}

// PublicationImpact is a publication that ends with its host.
type PublicationImpact struct {
	Volume *Volume
	Node   NodeID
}

// FailureImpact is what a failure does, each list in order of volumes, or of snapshots by their hosts.
type FailureImpact struct {
	Volumes      []VolumeImpact
	Publications []PublicationImpact
	// Snapshots are those that only hosts that stop keep: they come back with them.
	Snapshots []*Snapshot
}

// Worst is the worst that happens to a volume.
func (f *FailureImpact) Worst() (worst Impact) {
	for i := range f.Volumes {
		worst = max(worst, f.Volumes[i].Impact)
	}
	return worst
}

// IfStopped says what a failure would do now. It counts on no host that cannot be asked, and takes hosts in maintenance as
// stopped already: what is said is what the failure makes worse beside them. A copy counts only where the log knows that it
// has every acknowledged write. It reads the state and changes nothing.
func (s *State) IfStopped(f Failure) FailureImpact {
	var all FailureImpact
	before, after := s.beforeFailure(f), s.afterFailure(f)
	for _, v := range s.volumesConcerned(f) {
		if impact, reason := after.of(v); impact > before.impactOf(v) {
			all.Volumes = append(all.Volumes, VolumeImpact{Volume: v, Impact: impact, Reason: reason, Used: v.isUsed()})
		}
		for _, p := range v.Publications() {
			if slices.Contains(f.Nodes, p.Node) && !p.Reclaim {
				all.Publications = append(all.Publications, PublicationImpact{v, p.Node})
			}
		}
	}
	for _, id := range f.Nodes {
		for snap := range s.SnapshotsOn(id) {
			if snap.Phase == SnapshotReady {
				all.Snapshots = append(all.Snapshots, snap)
			}
		}
	}
	return all
}

// volumesConcerned are the volumes of which the hosts have something, all where nothing is decided any more; in order of id.
func (s *State) volumesConcerned(f Failure) []*Volume {
	if f.NoQuorum {
		return slices.Collect(s.Volumes(""))
	}
	known := map[VolumeID]*Volume{}
	var ids []VolumeID
	for _, node := range f.Nodes {
		for v := range s.VolumesOn(node) {
			if known[v.ID] == nil {
				known[v.ID], ids = v, append(ids, v.ID)
			}
		}
	}
	slices.Sort(ids)
	all := make([]*Volume, 0, len(ids))
	for _, id := range ids {
		all = append(all, known[id])
	}
	return all
}

// isUsed tells whether an orchestrator has it published.
func (v *Volume) isUsed() bool {
	return slices.ContainsFunc(v.Publications(), func(p Publication) bool { return !p.Reclaim })
}

// failureView is the state with some hosts stopped.
type failureView struct {
	s *State
	// stopped hosts serve nothing, and neither do those of also; those of assumed are taken as reachable.
	stopped, assumed map[NodeID]bool
	also             []NodeID
	noQuorum         bool
}

func (x *failureView) isStopped(id NodeID) bool { return x.stopped[id] || slices.Contains(x.also, id) }

// beforeFailure is the view without the failure: what it stops is taken to serve.
func (s *State) beforeFailure(f Failure) *failureView {
	x := &failureView{s: s, stopped: s.inMaintenance(), assumed: map[NodeID]bool{}}
	for _, id := range f.Nodes {
		x.assumed[id] = true
		delete(x.stopped, id)
	}
	return x
}

// afterFailure is the view with it.
func (s *State) afterFailure(f Failure) *failureView {
	x := &failureView{s: s, stopped: s.inMaintenance(), noQuorum: f.NoQuorum}
	for _, id := range f.Nodes {
		x.stopped[id] = true
	}
	return x
}

// inMaintenance are the hosts that may go down at any moment.
func (s *State) inMaintenance() map[NodeID]bool {
	all := map[NodeID]bool{}
	for n := range s.Nodes() {
		if n.Maintenance != 0 {
			all[n.ID] = true
		}
	}
	return all
}

// serves tells whether the replica's host is there, and may act.
func (x *failureView) serves(r *Replica) bool {
	n, ok := x.s.nodeOfReplica(r)
	if !ok || x.isStopped(n.ID) || n.State == NodeLost || n.IsFenced() || n.Incarnation != x.s.cluster.Incarnation {
		return false
	}
	return n.State == NodeReachable || x.assumed[n.ID]
}

func (x *failureView) impactOf(v *Volume) Impact {
	impact, _ := x.of(v)
	return impact
}

// of is how bad it is for a volume, and why. One that is being made or deleted, or failed, has nothing to lose.
func (x *failureView) of(v *Volume) (Impact, string) {
	if _, ready := v.Phase.(Ready); !ready {
		return ImpactNone, ""
	}
	if v.Replication == nil || v.converting() != nil {
		return x.ofLocal(v)
	}
	whole := x.wholeCopies(v)
	impact, reason := x.use(v)
	switch {
	case whole == 0:
		return ImpactLost, x.nobodyElse(v)
	case impact != ImpactNone:
		return impact, reason
	case whole < int(v.Replication.ReplicaCount):
		return ImpactDegraded, fmt.Sprintf("%d of %d replicas are left that have every write", whole, v.Replication.ReplicaCount)
	case x.noQuorum && x.s.PrimaryHost(v) != "":
		return ImpactDegraded, "its I/O freezes when its primary loses the other replica: nothing is decided without a quorum"
	}
	return ImpactNone, ""
}

// ofLocal is that of a volume with one copy: while it is being converted that of the seed.
func (x *failureView) ofLocal(v *Volume) (Impact, string) {
	where := NodeID("none")
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if v.Replication != nil && r.Host != v.Replication.Seed || !r.isAccessible() {
			continue
		}
		if r.State == ReplicaPresent && x.serves(r) {
			return ImpactNone, ""
		}
		where = r.Node
	}
	return ImpactUnavailable, fmt.Sprintf("its only copy is on node %s, and comes back with it", where)
}

// wholeCopies counts the replicas on serving hosts that have every acknowledged write, by the log.
func (x *failureView) wholeCopies(v *Volume) (n int) {
	for _, l := range v.ActiveReplicas() {
		if x.serves(l) && x.s.hasAllWrites(v, l) {
			n++
		}
	}
	return n
}

// hasAllWrites tells whether the log knows that the replica has every acknowledged write. With protocol A the last ones may
// still be on their way to it.
func (s *State) hasAllWrites(v *Volume, l *Replica) bool {
	n, ok := s.nodeOfReplica(l)
	if !ok || l.State != ReplicaPresent || l.Outdated || l.DiskFailed != 0 || l.Observed.diskUnusable() {
		return false
	}
	return l.UpToDate || s.PrimaryHost(v) == l.Host && l.isOfAttachment(n, l.Observed) && v.Replication.hasEveryWrite(l, l.Observed) || s.maybeSolo(v, l)
}

// maybeSolo tells whether the replica may be promoted without its peer (S5), by what its host observed last.
func (s *State) maybeSolo(v *Volume, l *Replica) bool {
	n, ok := s.nodeOfReplica(l)
	if !ok || l.State != ReplicaPresent || l.Undersized || l.Observed.Unconfigured || !l.isOfAttachment(n, l.Observed) {
		return false
	}
	a := &promotionCheck{s: s, v: v, n: n, r: v.Replication, own: l, peer: v.PeerReplica(l.Host), observed: l.Observed}
	return a.checkSolo() == nil
}

// nobodyElse says that no copy is left.
func (x *failureView) nobodyElse(v *Volume) string {
	for _, l := range v.ActiveReplicas() {
		switch n, _ := x.s.nodeOfReplica(l); {
		case n != nil && x.isStopped(n.ID):
		case x.serves(l):
			return fmt.Sprintf("no other copy is known to have every write: the one on node %s has not", l.Node)
		default:
			return fmt.Sprintf("no other copy is left: node %s, which has one, cannot be asked", l.Node)
		}
	}
	return "no other copy is left"
}

// use says whether the volume can be used, or goes on being used.
func (x *failureView) use(v *Volume) (Impact, string) {
	primary := v.ActiveReplica(x.s.PrimaryHost(v))
	if primary == nil || !x.serves(primary) {
		return x.takeover(v, primary != nil)
	}
	peer := v.PeerReplica(primary.Host)
	switch {
	case x.noQuorum && x.freezesAlone(v, primary):
		return ImpactFrozen, fmt.Sprintf("its primary on node %s suspends its I/O without its peer and without controllers", primary.Node)
	case peer != nil && x.serves(peer) && !primary.Observed.Suspended:
		return ImpactNone, ""
	case peer == nil || peer.Outdated:
		if !primary.Observed.Suspended || !x.noQuorum && x.goesOn(v, primary) {
			return ImpactNone, ""
		}
	case !x.noQuorum && x.goesOn(v, primary):
		if other := x.heldBackBy(v); other != nil {
			return ImpactFrozen, fmt.Sprintf("its primary on node %s waits until volume %s of its group is disconnected, and no host of that can be asked", primary.Node, other.ID)
		}
		return ImpactNone, ""
	}
	if x.noQuorum {
		return ImpactFrozen, fmt.Sprintf("the I/O of its primary on node %s waits for a verdict that no quorum gives", primary.Node)
	}
	return ImpactFrozen, fmt.Sprintf("its primary on node %s is not known to have every write, and freezes without its peer", primary.Node)
}

// freezesAlone: the relation has an isolated primary suspend its I/O (S45), and this one has no peer.
func (x *failureView) freezesAlone(v *Volume, primary *Replica) bool {
	r := x.s.RelationOf(v)
	peer := v.PeerReplica(primary.Host)
	return r != nil && r.FreezeIsolated && (peer == nil || !x.serves(peer) || !primary.Observed.Connected())
}

// goesOn tells whether the log would let the primary go on without its peer (S6).
func (x *failureView) goesOn(v *Volume, primary *Replica) bool {
	n, _ := x.s.nodeOfReplica(primary)
	return x.s.verdict(v, n, v.Replication.Generation, primary.Observed) == fsmpb.Verdict_VERDICT_PEER_OUTDATED
}

// takeover says whether another host may use the volume; a former primary stopped.
func (x *failureView) takeover(v *Volume, former bool) (Impact, string) {
	var there []*Replica
	relation := x.s.RelationOf(v)
	elsewhere := Site("")
	for _, l := range v.ActiveReplicas() {
		switch site := x.s.siteOf(l.Node); {
		case !x.serves(l):
		case relation != nil && !relation.isPrimary(site):
			elsewhere = site
		default:
			there = append(there, l)
		}
	}
	together := len(there) == len(v.ActiveReplicas()) && len(there) > 1
	for _, l := range there {
		if together && x.s.hasAllWrites(v, l) || x.s.maybeSolo(v, l) {
			return x.undecided(former)
		}
	}
	switch {
	case relation != nil && len(there) == 0 && elsewhere != "":
		return ImpactUnavailable, fmt.Sprintf("nobody has its role: it can be used once site %s is promoted", elsewhere)
	case v.Replication.Protocol == fsmpb.Protocol_PROTOCOL_A:
		return ImpactUnavailable, "with protocol A the other replica may lack the last writes, and is used by an operator's decision only"
	}
	return ImpactUnavailable, "the log does not know that the replica that is left has every write: it waits for its peer"
}

// undecided: without a quorum nobody is promoted.
func (x *failureView) undecided(former bool) (Impact, string) {
	switch {
	case x.noQuorum && former:
		return ImpactUnavailable, "no quorum lets the other replica go on"
	case x.noQuorum:
		return ImpactDegraded, "no quorum publishes it"
	}
	return ImpactNone, ""
}
