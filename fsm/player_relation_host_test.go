package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replicaDoing is what a replica's host says or asks for.
type replicaDoing func(v *Volume, l *Replica, n *Node) (string, proto.Message)

// at has the host of the volume's replica at a site do something, if there is one.
func (p *relationPlayer) at(id VolumeID, site string, do replicaDoing) func() (string, string, proto.Message) {
	return func() (string, string, proto.Message) {
		if v, ok := p.w.s.Volume(id); ok {
			for _, l := range v.ActiveReplicas() {
				if n, known := p.w.s.nodeOfReplica(l); known && n.site().String() == site {
					actor, body := do(v, l, n)
					named := map[bool]string{true: site, false: ""}[actor == "admin/ann"]
					return named, actor, body
				}
			}
		}
		actor, body := p.observe()
		return "", actor, body
	}
}

func (p *relationPlayer) attachIt(v *Volume, l *Replica, n *Node) (string, proto.Message) {
	attach := l.Attachment + 1
	if l.Boot == n.Boot && l.Attachment != 0 {
		attach = l.Attachment
	}
	return "node/" + string(n.ID), &fsmpb.AttachReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: attach}
}

func (p *relationPlayer) seesBoth(v *Volume, _ *Replica, n *Node) (string, proto.Message) {
	return p.report1(n, v, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: p.currentObservation(v, n).Proto()})
}

func (p *relationPlayer) publishIt(v *Volume, _ *Replica, n *Node) (string, proto.Message) {
	return "admin/ann", &fsmpb.PublishVolume{VolumeId: string(v.ID), NodeId: string(n.ID), Capability: mount(writer)}
}

func (p *relationPlayer) grantIt(v *Volume, _ *Replica, n *Node) (string, proto.Message) {
	c := &fsmpb.SetPrimary{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Seen: p.currentObservation(v, n).Proto()}
	if pub := v.Publication(n.ID); pub != nil {
		c.Epoch = pub.Epoch.Proto()
	}
	return "node/" + string(n.ID), c
}

func (p *relationPlayer) isPrimaryNow(v *Volume, _ *Replica, n *Node) (string, proto.Message) {
	seen := p.currentObservation(v, n)
	seen.Primary = true
	return p.report1(n, v, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()})
}

func (p *relationPlayer) asks(v *Volume, _ *Replica, n *Node) (string, proto.Message) {
	seen := p.currentObservation(v, n)
	seen.Primary, seen.Connection, seen.PeerDisk = true, connecting, 0
	return "node/" + string(n.ID), &fsmpb.Outdate{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Seen: seen.Proto(), Generation: v.Replication.Generation}
}

func (p *relationPlayer) keepsIt(*Volume, *Replica, *Node) (string, proto.Message) {
	return p.leftovers()
}

func (p *relationPlayer) isTarget(v *Volume, _ *Replica, n *Node) (string, proto.Message) {
	seen := p.currentObservation(v, n)
	seen.Connection, seen.Disk = syncTarget, inconsistent
	return p.report1(n, v, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()})
}

func (p *relationPlayer) isInterrupted(v *Volume, _ *Replica, n *Node) (string, proto.Message) {
	seen := p.currentObservation(v, n)
	seen.Connection, seen.Disk, seen.PeerDisk = connecting, inconsistent, 0
	return p.report1(n, v, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()})
}

// observe is what a host of a volume reports or asks for.
func (p *relationPlayer) observe() (string, proto.Message) {
	v, l, n := p.side()
	if v.Replication != nil && p.roll(2) == 0 {
		if actor, body := p.devices(&v); body != nil {
			return actor, body
		}
	}
	if l.ReplicaSync == nil || v.Replication == nil || v.ActiveReplica(n.Host) == nil {
		return p.leftovers()
	}
	switch {
	case l.Boot != n.Boot || l.Attachment == 0:
		return "node/" + string(n.ID), &fsmpb.AttachReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: l.Attachment + 1}
	case l.KeepDue || v.isReverting() || v.converting() != nil && v.converting().Undoing:
		if p.roll(2) == 0 {
			return p.relationFact()
		}
	}
	seen := p.seenOf(&v, &n)
	switch p.roll(8) {
	case 0, 1:
		c := &fsmpb.SetPrimary{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Seen: seen.Proto()}
		if pub := v.Publication(n.ID); pub != nil {
			c.Epoch = pub.Epoch.Proto()
		}
		return "node/" + string(n.ID), c
	case 2, 3:
		seen.Primary, seen.Disk, seen.Connection, seen.PeerDisk = true, upToDate, connecting, 0
		return "node/" + string(n.ID), &fsmpb.Outdate{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Seen: seen.Proto(), Generation: v.Replication.Generation}
	}
	return p.report1(&n, &v, &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()})
}

// seenOf is something that a host could see of a replica.
func (p *relationPlayer) seenOf(v *Volume, n *Node) ReplicaObservation {
	seen := p.currentObservation(v, n)
	switch p.roll(12) {
	case 0, 1:
		seen.Connection, seen.PeerDisk = standAlone, 0
	case 2:
		seen.Connection, seen.PeerDisk, seen.Disk = connecting, 0, consistent
	case 3:
		seen.Connection, seen.Disk = syncTarget, inconsistent
	case 4:
		seen.Connection, seen.PeerDisk, seen.Disk = standAlone, 0, inconsistent
	case 5, 6:
		seen.Connection, seen.PeerDisk = syncSource, inconsistent
	}
	return seen
}

// leftovers are the ends of teardowns, and of copies that are kept.
func (p *relationPlayer) leftovers() (string, proto.Message) {
	for v := range p.w.s.Volumes("") {
		for _, t := range v.Teardowns {
			if n, ok := p.w.s.Node(t.Node); ok && n.Host == t.Host && v.Replication != nil && p.roll(2) == 0 {
				return p.endTeardown(n, v, &t)
			}
		}
		for i := range v.Replicas {
			if n, ok := p.w.s.nodeOfReplica(&v.Replicas[i]); ok && v.Replicas[i].State == ReplicaLeaving && p.roll(8) == 0 {
				return p.report1(n, v, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}})
			}
		}
	}
	for k := range p.w.s.KeptCopies() {
		if n, ok := p.w.s.Node(k.Node); ok && k.Phase == SnapshotTaking {
			return "node/" + string(n.ID), &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{{
				VolumeId: string(k.Source), SnapshotId: string(k.ID),
				Fact: &fsmpb.Observation_SnapshotKept{SnapshotKept: &fsmpb.SnapshotKept{Attach: 1, PoolId: string(k.Pool), CutUnixNano: int64(p.player.at)}},
			}}}
		}
	}
	for v := range p.w.s.Volumes("") {
		for _, l := range v.ActiveReplicas() {
			if n, ok := p.w.s.nodeOfReplica(l); ok && l.KeepDue {
				return "node/" + string(n.ID), &fsmpb.KeepReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: max(1, l.Attachment), SnapshotId: snapshotID(1000 + int(p.player.at)), BeforeSync: true}
			}
		}
	}
	return p.relationFact()
}
