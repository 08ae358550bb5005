package fsm

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// snapshotID and groupID are the n-th ids of the tests.
func snapshotID(n int) string { return fmt.Sprintf("hs-00000000-0000-4000-8000-%012x", n) }
func groupID(n int) string    { return fmt.Sprintf("hgs-00000000-0000-4000-8000-%012x", n) }

// chooseSnapshot proposes something about snapshots, sources, sizes or limits.
func (p *player) chooseSnapshot() (string, proto.Message) {
	const controller = "controller/c1"
	p.created++
	switch p.roll(12) {
	case 0, 1, 2:
		return controller, &fsmpb.CreateSnapshot{
			SnapshotId: snapshotID(p.created), Name: fmt.Sprintf("snap-%d", p.roll(5)), SourceVolumeId: p.volumeID(), Fingerprint: bytesOf("s", 32*(p.roll(9)/8)),
		}
	case 3:
		return controller, &fsmpb.DeleteSnapshot{SnapshotId: p.snapshotID()}
	case 4, 5, 6:
		return controller, p.group()
	case 7:
		for g := range p.w.s.GroupSnapshots("") {
			if p.roll(2) == 0 {
				return controller, &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: string(g.ID)}
			}
		}
		return controller, &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: groupID(9999)}
	case 8, 9:
		return controller, &fsmpb.ExpandVolume{VolumeId: p.volumeID(), RequiredBytes: gib + int64(p.roll(4))*gib/2, LimitBytes: int64(p.roll(4)/3) * gib}
	}
	return controller, &fsmpb.ModifyVolume{VolumeId: p.volumeID(), Limits: &fsmpb.Limits{ReadIops: uint64(p.roll(3)), WriteBytesPerSecond: uint64(p.roll(2))}, Set: uint32(p.roll(3))}
}

func (p *player) group() *fsmpb.CreateGroupSnapshot {
	c := &fsmpb.CreateGroupSnapshot{GroupSnapshotId: groupID(p.created), Name: fmt.Sprintf("group-%d", p.roll(2))}
	if g, ok := p.w.s.GroupSnapshotByName("", c.Name); ok && p.roll(3) > 0 {
		for i, n := range p.w.s.members(g) {
			c.Members = append(c.Members, &fsmpb.GroupMember{SourceVolumeId: string(n.Source), SnapshotId: snapshotID(p.created*100 + i)})
		}
		return c
	}
	for i := range 1 + p.roll(3) {
		c.Members = append(c.Members, &fsmpb.GroupMember{SourceVolumeId: p.volumeID(), SnapshotId: snapshotID(p.created*100 + i)})
	}
	return c
}

func (p *player) snapshotID() string {
	for n := range p.w.s.Snapshots("") {
		if p.roll(3) == 0 {
			return string(n.ID)
		}
	}
	return snapshotID(9999)
}

// source is a volume's or a snapshot's, with what it can be used as.
func (p *player) source(c *fsmpb.CreateVolume) {
	var caps []Capability
	if n, ok := p.w.s.Snapshot(SnapshotID(p.snapshotID())); ok && p.roll(2) == 0 {
		c.Source, caps = &fsmpb.Source{SnapshotId: string(n.ID)}, n.Capabilities
	} else {
		v := p.volume()
		c.Source, caps = &fsmpb.Source{VolumeId: string(v.ID)}, v.Capabilities
	}
	if len(caps) > 0 && p.roll(4) > 0 {
		c.Capabilities = []*fsmpb.Capability{caps[p.roll(len(caps))].pb()}
	}
	if p.roll(2) == 0 {
		c.RequiredBytes = 0
	}
}

// doDesiredSnapshots is a host's report about its snapshots, mostly that it did what is desired.
func (p *player) doDesiredSnapshots() *fsmpb.Report {
	n := p.node()
	r := &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot}
	for w := range p.w.s.DesiredSnapshots(n.ID) {
		if p.roll(4) > 0 {
			r.Observations = append(r.Observations, p.obeyed(w))
		}
	}
	return r
}

func (p *player) obeyed(w DesiredSnapshot) *fsmpb.Observation {
	o := &fsmpb.Observation{SnapshotId: string(w.Snapshot), VolumeId: string(w.Source)}
	if p.roll(8) == 0 {
		o.Sequence = w.Sequence + uint64(p.roll(2))
	}
	attempt := w.Attempt - uint32(p.roll(12)/11)
	cut := &fsmpb.Observation_SnapshotCut{SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: w.Size + int64(p.roll(20)/19), CutUnixNano: int64(p.at), Attempt: attempt}}
	gone := &fsmpb.Observation_SnapshotGone{SnapshotGone: &fsmpb.SnapshotGone{Attempt: attempt}}
	switch p.roll(18) {
	case 0:
		o.Fact = &fsmpb.Observation_Thawed{Thawed: &fsmpb.Thawed{Attempt: attempt}}
		return o
	case 1:
		o.Fact = &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "cut", Error: "I/O error", Final: p.roll(2) == 0, NoSpace: p.roll(2) == 0, Reason: uint32(p.roll(20))}}
		return o
	case 2:
		o.Fact = &fsmpb.Observation_SnapshotMissing{SnapshotMissing: &fsmpb.SnapshotMissing{}}
		return o
	case 3:
		o.Fact = &fsmpb.Observation_Progress{Progress: &fsmpb.Progress{DoneBytes: int64(p.roll(3)), TotalBytes: 2}}
		return o
	case 4:
		o.Fact = cut
		return o
	}
	switch w.Goal {
	case SnapshotGoalTake, SnapshotGoalKeep:
		o.Fact = cut
	case SnapshotGoalFreeze:
		o.Fact = &fsmpb.Observation_Frozen{Frozen: &fsmpb.Frozen{Attempt: attempt}}
	case SnapshotGoalThaw, SnapshotGoalRemove:
		o.Fact = gone
	}
	return o
}

// observeGrowth is about a volume's size, limits, or the copy it is made by.
func (p *player) observeGrowth(o *fsmpb.Observation, v *Volume) {
	switch p.roll(4) {
	case 0, 1:
		o.Fact = &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: v.Size - int64(p.roll(5)/4)}}
	case 2:
		limits := v.Limits
		limits.ReadIOPS += uint64(p.roll(4) / 3)
		o.Fact = &fsmpb.Observation_LimitsApplied{LimitsApplied: &fsmpb.LimitsApplied{Limits: limits.Proto()}}
	case 3:
		o.Fact = &fsmpb.Observation_Progress{Progress: &fsmpb.Progress{DoneBytes: int64(p.roll(3)), TotalBytes: 2}}
	}
}

// operations are those of all records.
func (p *player) operations() (ids []uint64) {
	for v := range p.w.s.Operations() {
		ids = append(ids, uint64(v.Operation.ID))
	}
	for n := range p.w.s.SnapshotOperations() {
		ids = append(ids, uint64(n.Operation.ID))
	}
	for g := range p.w.s.GroupSnapshots("") {
		if g.Operation != nil {
			ids = append(ids, uint64(g.Operation.ID))
		}
	}
	slices.Sort(ids)
	return ids
}
