package fsm

import (
	"testing"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Planted bugs: each undoes one rule, from outside of the code that has it, and must be
// found. What is forged is forged in the state or in the command, just before it counts.
var plantedBugs = map[string]func(*sim, *fsmpb.Command){
	"S7: what was seen in an earlier generation counts": func(x *sim, cmd *fsmpb.Command) {
		for _, o := range cmd.GetReport().GetObservations() {
			if r := o.GetReplicaSeen(); r != nil {
				r.Generation = x.volume().Replication.Generation
			}
		}
	},
	"S5: a Consistent disk is promoted though its content is not a known one": func(x *sim, cmd *fsmpb.Command) {
		if c := cmd.GetSetPrimary(); c.GetSeen().GetDisk() == consistent {
			x.forge(func(v *Volume) {
				v.ActiveReplica(HostID(c.GetHostId())).InSyncUUID = RecordedUUID{Value: c.GetSeen().GetCurrentUuid(), Index: x.w.index}
			})
		}
	},
	"S5: the log's word counts for another attachment, and for a disk that the kernel does not call whole": func(x *sim, cmd *fsmpb.Command) {
		c := cmd.GetAttachReplica()
		if l := x.volume().ActiveReplica(HostID(c.GetHostId())); l != nil && l.UpToDate {
			x.forge(func(v *Volume) {
				v.ActiveReplica(l.Host).Boot, v.ActiveReplica(l.Host).Attachment = c.GetBootId(), c.GetAttach()
			})
		}
		if p := cmd.GetSetPrimary(); p.GetSeen().GetDisk() == consistent {
			p.Seen.Disk = upToDate
		}
	},
	"S5: a content that both had counts after a grant": func(x *sim, cmd *fsmpb.Command) {
		for i := range x.hosts {
			l := x.volume().ActiveReplicas()[i]
			if l.InSyncUUID.Value != 0 {
				x.hosts[i].plantedInSyncUUID = l.InSyncUUID.Value
			} else if cmd.GetSetPrimary() != nil && x.hosts[i].plantedInSyncUUID != 0 {
				x.forge(func(v *Volume) {
					v.ActiveReplicas()[i].InSyncUUID = RecordedUUID{Value: x.hosts[i].plantedInSyncUUID, Index: x.w.index}
				})
			}
		}
	},
	"S5: a disk that the kernel calls Consistent may have gone on alone": func(x *sim, cmd *fsmpb.Command) {
		c := cmd.GetSetPrimary()
		if l := x.volume().ActiveReplica(HostID(c.GetHostId())); l != nil && l.SoloPrimaryUUID.Value != 0 && l.SoloPrimaryUUID.Value == c.GetSeen().GetCurrentUuid() {
			c.Seen.Disk = upToDate
		}
	},
	"S6: the loser is told to go on": func(x *sim, cmd *fsmpb.Command) {
		c := cmd.GetOutdate()
		if l := x.volume().ActiveReplica(HostID(c.GetHostId())); l != nil && l.Outdated {
			x.forge(func(v *Volume) { x.grantTo(v, c) })
		}
	},
	"S8: a primary without a disk outdates the only good copy": func(x *sim, cmd *fsmpb.Command) {
		if c := cmd.GetOutdate(); c.GetSeen().GetDisk() == diskless {
			c.Seen.Disk = upToDate
		}
	},
	"S8: that the peer was outdated is forgotten": func(x *sim, _ *fsmpb.Command) {
		for i, l := range x.volume().ActiveReplicas() {
			if n, _ := x.w.s.Node(NodeID(x.hosts[i].node)); l.Outdated && l.Boot == n.Boot {
				x.forge(func(v *Volume) { v.ActiveReplicas()[i].Outdated, v.ActiveReplicas()[i].UpToDate = false, true })
			}
		}
	},
}

// grantTo makes the asker the holder, as if it had not lost.
func (x *sim) grantTo(v *Volume, c *fsmpb.Outdate) {
	n, _ := x.w.s.Node(NodeID(c.GetNodeId()))
	at := Epoch{1, 1}
	v.Phase = Ready{Publications: []Publication{{Node: n.ID, Host: n.Host, Epoch: at}}}
	v.Replication.Primary = &PrimaryGrant{Node: n.ID, Host: n.Host, Boot: n.Boot, Epoch: at, Index: 1}
	l := v.ActiveReplica(n.Host)
	l.Outdated, l.UpToDate, l.Boot, l.Attachment = false, true, n.Boot, c.GetSeen().GetAttach()
	v.Replication.Generation = c.GetGeneration()
}

// forge changes the volume behind the state machine's back.
func (x *sim) forge(change func(*Volume)) {
	v := x.volume().withReplication()
	change(&v)
	x.w.s.putVolume(v)
	x.w.s.changes = nil
}

func TestPlantedBugsAreFound(t *testing.T) {
	skipUnderRace(t)
	if checkAlways {
		t.Skip("what is forged breaks invariants, which are checked at once in this build")
	}
	base := newReplicated(t, fsmpb.Protocol_PROTOCOL_C)
	for name, plant := range plantedBugs {
		t.Run(name, func(t *testing.T) {
			for seed := range 6000 {
				x := newSim(base, int64(seed))
				x.bug = plant
				broken := ""
				for range steps {
					if x.step(true); x.broken() != "" {
						broken = x.broken()
						break
					}
				}
				if broken != "" {
					t.Logf("seed %d: %s", seed, broken)
					return
				}
			}
			t.Fatal("no seed found it")
		})
	}
}
