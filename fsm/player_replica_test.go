package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// side is a replica of a replicated volume with its host, made up where there is none.
func (p *player) side() (Volume, Replica, Node) {
	var sides []Replica
	var volumes []Volume
	for v := range p.w.s.Volumes("") {
		if v.Replication == nil {
			continue
		}
		for _, l := range v.ActiveReplicas() {
			sides, volumes = append(sides, *l), append(volumes, *v)
		}
	}
	if len(sides) == 0 || p.roll(20) == 0 {
		n := p.node()
		return p.volume(), Replica{Host: n.Host, ReplicaSync: &ReplicaSync{Boot: n.Boot}}, n
	}
	i := p.roll(len(sides))
	if n, ok := p.w.s.nodeOfReplica(&sides[i]); ok {
		return volumes[i], sides[i], *n
	}
	return volumes[i], sides[i], p.node()
}

// chooseReplica proposes something about replicas, mostly what comes next in their life.
func (p *player) chooseReplica() (string, proto.Message) {
	const controller, admin = "controller/c1", "admin/ann"
	v, l, n := p.side()
	host := "node/" + string(n.ID)
	if (l.Boot != n.Boot || l.Attachment == 0) && p.roll(3) > 0 {
		return host, &fsmpb.AttachReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: l.Attachment + 1}
	}
	if v.isCreating() && p.roll(3) > 0 {
		return host, p.replicaReport(&v, &l, &n)
	}
	switch p.roll(18) {
	case 0:
		return host, &fsmpb.AttachReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: l.Attachment + uint64(p.roll(3))}
	case 1, 2, 3:
		c := &fsmpb.SetPrimary{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Seen: p.replicaObservation(&v, &l, &n).Proto()}
		if pub := v.Publication(n.ID); pub != nil {
			c.Epoch = pub.Epoch.Proto()
		}
		return host, c
	case 4, 5:
		c := &fsmpb.Outdate{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Seen: p.replicaObservation(&v, &l, &n).Proto()}
		if v.Replication != nil {
			c.Generation = v.Replication.Generation - uint64(p.roll(8)/7)
		}
		return host, c
	case 6:
		return admin, &fsmpb.ForcePrimary{VolumeId: string(v.ID), NodeId: string(n.ID), Reason: "flood", PeerDead: p.roll(2) == 0}
	case 7:
		c := &fsmpb.AddReplica{VolumeId: string(v.ID)}
		if p.roll(2) == 0 {
			c.NodeId = string(p.node().ID)
		}
		return controller, c
	case 8:
		if p.roll(3) > 0 {
			return controller, &fsmpb.PublishVolume{VolumeId: string(v.ID), NodeId: string(n.ID), Capability: mount(writer)}
		}
		return controller, &fsmpb.RemoveReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), Reason: "drained"}
	case 9:
		if p.at%2 == 0 {
			return host, &fsmpb.ClaimMaintenance{NodeId: string(n.ID), HostId: string(n.Host), Release: p.at%3 == 0, AllowUnused: p.at%8 < 4}
		}
		if p.at%5 == 0 {
			c := &fsmpb.SetOutOfService{NodeId: string(n.ID), HostId: string(n.Host)}
			if p.at%3 != 0 {
				c.Returned = n.OutOfService
			}
			return controller, c
		}
		return admin, &fsmpb.ScheduleNode{NodeId: string(n.ID), HostId: string(n.Host), Cordoned: p.roll(4) == 0}
	case 10:
		c := &fsmpb.KeepReplica{VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: l.Attachment, SnapshotId: p.keptID()}
		if p.roll(6) == 0 {
			c.Trouble = "no space"
		}
		return host, c
	case 11:
		kept := &fsmpb.SnapshotKept{Attach: l.Attachment + uint64(p.roll(2)), PoolId: string(p.poolOf(&v, &n)), CutUnixNano: int64(p.at)}
		return host, &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Observations: []*fsmpb.Observation{
			{VolumeId: string(v.ID), SnapshotId: p.keptID(), Fact: &fsmpb.Observation_SnapshotKept{SnapshotKept: kept}},
		}}
	case 12:
		return controller, &fsmpb.DeleteSnapshot{SnapshotId: p.keptID(), Superseded: p.roll(2) == 0}
	}
	return host, p.replicaReport(&v, &l, &n)
}

// replicaReport says what is seen, of one replica or of all on the host.
func (p *player) replicaReport(v *Volume, l *Replica, n *Node) *fsmpb.Report {
	r := &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot}
	of := func(fact any) *fsmpb.Observation {
		o := volumeObservation(0, fact)
		o.VolumeId = string(v.ID)
		return o
	}
	if replica := v.Replica(n.Host); replica != nil && replica.State == ReplicaPlanned {
		r.Observations = append(r.Observations, of(&fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}}))
	}
	r.Observations = append(r.Observations, of(&fsmpb.Observation_ReplicaSeen{ReplicaSeen: p.replicaObservation(v, l, n).Proto()}))
	if t := v.Teardown(n.Host); t != nil || p.roll(6) == 0 {
		o := &fsmpb.Observation{VolumeId: string(v.ID), Sequence: p.sequence(v), Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}}
		if t != nil {
			o.Epoch = t.Epoch.Proto()
		} else if pub := v.Publication(n.ID); pub != nil {
			o.Epoch = pub.Epoch.Proto()
		}
		r.Observations = append(r.Observations, o)
	}
	if replica := v.Replica(n.Host); replica != nil && replica.State == ReplicaLeaving {
		r.Observations = append(r.Observations, of(&fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	}
	return r
}

// replicaObservation is an observation, mostly of two whole replicas.
func (p *player) replicaObservation(v *Volume, l *Replica, n *Node) ReplicaObservation {
	observed := ReplicaObservation{
		Boot: n.Boot, Attachment: l.Attachment, Disk: upToDate, PeerDisk: upToDate, Connection: connected, UUID: uint64(1 + p.roll(8)/7),
		Primary: p.w.s.PrimaryHost(v) == n.Host && p.roll(3) > 0,
	}
	if v.Replication != nil {
		observed.Generation = v.Replication.Generation
	}
	switch p.roll(14) {
	case 0:
		observed.Disk = fsmpb.DiskState(p.roll(10))
	case 1, 2, 3, 4:
		observed.Connection, observed.PeerDisk = fsmpb.ConnectionState(p.roll(3)), fsmpb.DiskState(p.roll(9))
	case 5:
		observed.Connection = fsmpb.ConnectionState(3 + p.roll(4))
	case 6:
		observed.Attachment += uint64(p.roll(2))
	case 7:
		observed.Generation -= uint64(p.roll(3))
	case 8:
		observed.Suspended, observed.Connection = true, connecting
	case 9:
		observed = ReplicaObservation{Boot: n.Boot, Attachment: uint64(p.roll(3)), Generation: observed.Generation, Unconfigured: true}
	case 10:
		observed.Disk, observed.Connection = consistent, standAlone
	case 11:
		observed.BackingCapacity, observed.OutOfSync, observed.SyncPercent = v.Size, int64(p.roll(2)), uint32(p.roll(10)*10)
	}
	return observed
}

// keptID is a kept copy, or the name of one that there is not yet.
func (p *player) keptID() string {
	for n := range p.w.s.Snapshots("") {
		if n.KeptCopy != nil && p.roll(2) == 0 {
			return string(n.ID)
		}
	}
	p.created++
	return snapshotID(p.created)
}

func (p *player) poolOf(v *Volume, n *Node) PoolID {
	if r := v.Replica(n.Host); r != nil {
		return r.Pool
	}
	return "none"
}
