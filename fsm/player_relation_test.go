package fsm

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// playedSites are those at which the player's hosts are.
var playedSites = []string{DefaultSite, "A"}

// chooseRelation is what the orchestrators of two sites ask of a volume or of a group, and what hosts report of it. The
// site is put into the envelope by the player.
func (p *player) chooseRelation() (string, proto.Message) {
	const admin = "admin/ann"
	source := &fsmpb.ReplicationSource{VolumeId: p.volumeID()}
	if p.roll(3) == 0 {
		source = groupSource(p.roll(3))
	}
	role := uint64(0)
	if p.roll(4) == 0 {
		role = p.w.s.ReplicationRole(source) - uint64(p.roll(8)/7)
	}
	switch p.roll(13) {
	case 0, 1, 2:
		c := enable(source, playedSites[p.roll(2)])
		c.Separately = p.roll(6) == 0
		return admin, c
	case 3, 4:
		return admin, &fsmpb.PromoteReplication{Source: source, Role: role, Force: p.roll(2) == 0}
	case 5:
		return admin, &fsmpb.DemoteReplication{Source: source, Role: role}
	case 6, 7:
		return admin, &fsmpb.ResyncReplication{Source: source, Role: role, Force: p.roll(3) > 0, DiscardUnkept: p.roll(4) == 0}
	case 8:
		return admin, &fsmpb.DisableReplication{Source: source, Role: role}
	case 9:
		v := p.volume()
		c := &fsmpb.CancelConversion{VolumeId: string(v.ID)}
		if v.converting() != nil {
			c.Began = v.converting().Began
		}
		return "controller/c1", c
	}
	return p.relationFact()
}

// relationFact is what a host reports of a conversion that is undone, or of a replica that went back.
func (p *player) relationFact() (string, proto.Message) {
	v, l, n := p.side()
	report := &fsmpb.Report{NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot}
	o := &fsmpb.Observation{VolumeId: string(v.ID), Fact: &fsmpb.Observation_ConversionUndone{ConversionUndone: &fsmpb.ConversionUndone{}}}
	if v.isReverting() {
		o.Fact = &fsmpb.Observation_ReplicaReverted{ReplicaReverted: &fsmpb.ReplicaReverted{SnapshotId: string(v.Replication.Revert.Snapshot)}}
	}
	if l.ReplicaSync != nil && l.KeepDue {
		return "node/" + string(n.ID), &fsmpb.KeepReplica{
			VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Attach: l.Attachment, SnapshotId: p.keptID(),
			BeforeSync: p.roll(3) > 0, Trouble: []string{"", "", "no space"}[p.roll(3)],
		}
	}
	report.Observations = append(report.Observations, o)
	return "node/" + string(n.ID), report
}

// isOfRelation tells whether the command is about a relation: it needs a site.
func isOfRelation(body proto.Message) bool {
	switch body.(type) {
	case *fsmpb.EnableReplication, *fsmpb.PromoteReplication, *fsmpb.DemoteReplication, *fsmpb.ResyncReplication, *fsmpb.DisableReplication:
		return true
	}
	return false
}
