package fsm

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// liveVolumes is how many replicated volumes are kept alive, on four hosts.
const liveVolumes = 5

// realisticStep is what well-working hosts and controllers do next for one replicated
// volume: so replicas are synchronised, used, lost, kept, healed and replaced far oftener
// than by chance.
func (p *player) realisticStep() (string, proto.Message) {
	if actor, body := p.hosts(); body != nil {
		return actor, body
	}
	var all []*Volume
	for v := range p.w.s.Volumes("") {
		if v.Replication != nil {
			all = append(all, v)
		}
	}
	if len(all) < liveVolumes {
		p.created++
		return "controller/c1", createReplicated(p.created, fsmpb.Protocol(1+p.roll(2)))
	}
	v := all[p.roll(len(all))]
	for _, next := range []func(*Volume) (string, proto.Message){p.devices, p.attachments, p.useVolume, p.losses} {
		if actor, body := next(v); body != nil {
			return actor, body
		}
	}
	return p.observeTogether(v)
}

// hosts come back, are adopted, or are added.
func (p *player) hosts() (string, proto.Message) {
	s, existing := p.w.s, 0
	for n := range s.Nodes() {
		switch {
		case n.State == NodeUnreachable && p.roll(3) == 0:
			return "controller/c1", &fsmpb.SetNodeReachable{NodeId: string(n.ID), HostId: string(n.Host), Reachable: true}
		case n.State == NodeReachable && n.Incarnation != s.cluster.Incarnation:
			return "admin/ann", &fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: s.cluster.Incarnation}
		case n.State != NodeLost:
			existing++
		}
	}
	if existing >= 4 || p.roll(3) > 0 {
		return "", nil
	}
	r := replicating(fmt.Sprint("n", 1+p.roll(4)))
	if n, ok := s.Node(NodeID(r.NodeId)); ok && n.State != NodeLost {
		return "", nil
	}
	r.HostId, r.Pools[0].PoolId, r.Pools[0].CapacityBytes = fmt.Sprintf("%s-%d", r.HostId, p.at), fmt.Sprintf("%s-%d", r.Pools[0].PoolId, p.at), gib
	return "node/" + r.NodeId, r
}

func (p *player) report1(n *Node, v *Volume, fact any) (string, proto.Message) {
	o := volumeObservation(0, fact)
	o.VolumeId = string(v.ID)
	return "node/" + string(n.ID), &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{o}}
}

// devices are made, grown and removed.
func (p *player) devices(v *Volume) (string, proto.Message) {
	_, deleting := v.Phase.(Deleting)
	for i := range v.Replicas {
		r := &v.Replicas[i]
		n, ok := p.w.s.nodeOfReplica(r)
		switch {
		case !ok:
		case r.State == ReplicaPlanned && !deleting && p.roll(4) > 0:
			return p.report1(n, v, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}})
		case v.Teardown(r.Host) != nil && p.roll(3) == 0:
			return p.endTeardown(n, v, v.Teardown(r.Host))
		case deleting, r.State == ReplicaLeaving && p.roll(4) == 0:
			return p.report1(n, v, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}})
		case r.Size < v.Size && p.roll(3) == 0:
			return p.report1(n, v, &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: v.Size}})
		}
	}
	if v.isFailed() {
		return "controller/c1", &fsmpb.DeleteVolume{VolumeId: string(v.ID)}
	}
	return "", nil
}

// endTeardown says that nothing of an earlier publication is left.
func (p *player) endTeardown(n *Node, v *Volume, t *Teardown) (string, proto.Message) {
	down := ReplicaObservation{Boot: n.Boot, Generation: v.Replication.Generation, Unconfigured: true}
	_, body := p.report1(n, v, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: down.Proto()})
	r := body.(*fsmpb.Report)
	r.Observations = append(r.Observations, &fsmpb.Observation{
		VolumeId: string(v.ID), Epoch: t.Epoch.Proto(), Sequence: v.Replica(n.Host).Sequence + 1, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}},
	})
	return "node/" + string(n.ID), r
}

// attachments follow a boot, and a replica that went down.
func (p *player) attachments(v *Volume) (string, proto.Message) {
	for _, l := range v.ActiveReplicas() {
		if n, ok := p.w.s.nodeOfReplica(l); ok && (l.Attachment == 0 || l.Boot != n.Boot || l.Observed.Unconfigured && p.roll(2) == 0) {
			return "node/" + string(n.ID), &fsmpb.AttachReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: l.Attachment + 1}
		}
	}
	return "", nil
}

// useVolume publishes, makes primary, copies, and ends that.
func (p *player) useVolume(v *Volume) (string, proto.Message) {
	const controller = "controller/c1"
	if _, ready := v.Phase.(Ready); !ready || len(v.ActiveReplicas()) == 0 || p.roll(2) == 0 {
		return "", nil
	}
	n, ok := p.w.s.nodeOfReplica(v.ActiveReplicas()[p.roll(len(v.ActiveReplicas()))])
	pub := v.Publications()
	p.created++
	switch p.roll(8) {
	case 0, 1:
		if ok && len(pub) == 0 {
			return controller, &fsmpb.PublishVolume{VolumeId: string(v.ID), NodeId: string(n.ID), Capability: v.Capabilities[0].pb()}
		}
	case 2:
		return controller, &fsmpb.UnpublishVolume{VolumeId: string(v.ID)}
	case 3:
		return controller, &fsmpb.CreateSnapshot{SnapshotId: snapshotID(p.created), Name: fmt.Sprint("snap-", p.created), SourceVolumeId: string(v.ID)}
	case 4:
		return controller, &fsmpb.AddReplica{VolumeId: string(v.ID)}
	case 5:
		return controller, p.copyOf(v)
	case 6, 7:
		if ok && len(pub) > 0 && pub[0].Node == n.ID {
			observed := p.currentObservation(v, n)
			observed.Primary = false
			return "node/" + string(n.ID), &fsmpb.SetPrimary{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Epoch: pub[0].Epoch.Proto(), Seen: observed.Proto()}
		}
	}
	return "", nil
}

// copyOf makes a volume of the volume, or of a kept copy of it, wherever that may be.
func (p *player) copyOf(v *Volume) *fsmpb.CreateVolume {
	c := create(p.created)
	c.Source, c.RequiredBytes, c.Replicas = &fsmpb.Source{VolumeId: string(v.ID)}, 0, uint32(1+p.roll(2))
	c.Preferred = terms(fmt.Sprint("n", 1+p.roll(4)))
	for _, n := range p.w.s.liveKeptCopiesOf(v.ID) {
		c.Source = &fsmpb.Source{SnapshotId: string(n.ID)}
	}
	return c
}

// losses: a primary continues without its peer, and what the peer had is kept.
func (p *player) losses(v *Volume) (string, proto.Message) {
	for _, l := range v.ActiveReplicas() {
		n, ok := p.w.s.nodeOfReplica(l)
		switch {
		case !ok:
		case l.Host == p.w.s.PrimaryHost(v) && p.roll(6) == 0:
			observed := p.currentObservation(v, n)
			observed.Connection, observed.PeerDisk, observed.Suspended = connecting, 0, true
			return "node/" + string(n.ID), &fsmpb.Outdate{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Generation: v.Replication.Generation, Seen: observed.Proto()}
		case l.Outdated && p.roll(3) == 0:
			return "node/" + string(n.ID), p.keeping(v, n, l)
		}
	}
	return "", nil
}

// keeping requests a kept copy, or reports that the requested one was taken.
func (p *player) keeping(v *Volume, n *Node, l *Replica) proto.Message {
	if copies := p.w.s.liveKeptCopiesOn(v.ID, n.Host); len(copies) > 0 && p.roll(2) == 0 {
		k := copies[p.roll(len(copies))]
		return &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{{
			VolumeId: string(v.ID), SnapshotId: string(k.ID), Fact: &fsmpb.Observation_SnapshotKept{SnapshotKept: &fsmpb.SnapshotKept{Attach: k.KeptCopy.Attachment, PoolId: string(k.Pool), CutUnixNano: int64(p.at)}},
		}}}
	}
	p.created++
	return &fsmpb.KeepReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: max(1, l.Attachment), SnapshotId: snapshotID(p.created)}
}

// currentObservation is what a host observes now of two connected replicas that are up to date.
func (p *player) currentObservation(v *Volume, n *Node) ReplicaObservation {
	observed := inSyncObservation(7)
	observed.Boot, observed.Attachment, observed.Generation, observed.Primary = n.Boot, v.ActiveReplica(n.Host).Attachment, v.Replication.Generation, p.w.s.PrimaryHost(v) == n.Host
	return observed
}

// observeTogether: a host observes both replicas connected and up to date.
func (p *player) observeTogether(v *Volume) (string, proto.Message) {
	if len(v.ActiveReplicas()) == 0 {
		return p.chooseReplica()
	}
	n, ok := p.w.s.nodeOfReplica(v.ActiveReplicas()[p.roll(len(v.ActiveReplicas()))])
	if !ok {
		return p.chooseReplica()
	}
	return p.report1(n, v, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: p.currentObservation(v, n).Proto()})
}

// S101 to S119, S151 to S160, S49: replicas live, with few ports and little room, and every
// invariant holds; a member that starts from a dump now and then holds the same state.
func TestRandomReplicaHistoriesKeepEveryInvariant(t *testing.T) {
	few := lastPort
	lastPort = firstPort + 3
	t.Cleanup(func() { lastPort = few })
	for seed := range seeds(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			p := newPlayer(t, &seededDice{r: rand.New(rand.NewSource(int64(seed))), left: 800})
			level := uint32(MaxFeatureLevel)
			if seed%4 == 0 {
				level = Level1
			}
			p.w = newReplicatedAt(t, level, protocolC)
			p.at, p.created = p.w.index, 1
			p.live(restored(t, p.w.s))
		})
	}
}

// live plays, mostly by what keeps volumes alive, beside a member that is restored.
func (p *player) live(other *State) {
	hosts := newHostViews(p.w.s)
	for p.more() {
		e := p.next()
		if p.roll(5) > 0 {
			actor, body := p.realisticStep()
			e.cmd = envelope(actor, fmt.Sprintf("life %d", e.index), e.index-1, body)
		}
		if LeastLevel(e.cmd) > p.w.s.Cluster().FeatureLevel || e.cmd.GetLoseNode() != nil && p.roll(6) > 0 {
			continue // the first is never proposed
		}
		one, two := p.w.s.Apply(e.index, e.cmd), other.Apply(e.index, e.cmd)
		hosts.applyChanges(p.w.s, e, one.Changes)
		hosts.check(p.w.t, p.w.s, e)
		require.True(p.w.t, proto.Equal(one.Outcome, two.Outcome), "%v\n%v\nto %v", one.Outcome, two.Outcome, e.cmd)
		require.NoError(p.w.t, p.w.s.Check(), "after index %d: %v", e.index, e.cmd)
		require.Equal(p.w.t, p.w.s.Hash(), other.Hash(), "after index %d: %v", e.index, e.cmd)
		if p.roll(40) == 0 {
			other = restored(p.w.t, other)
		}
	}
}
