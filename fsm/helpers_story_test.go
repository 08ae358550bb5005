package fsm

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// playedStory is a log of the newest level: what chance seldom brings about, then what it does.
func playedStory(t testing.TB, seed int64) []entry {
	t.Helper()
	p := newPlayer(t, &seededDice{r: rand.New(rand.NewSource(seed)), left: 200})
	p.w = story(t)
	p.at = p.w.index
	log := slices.Clone(p.w.log)
	for p.more() {
		e := p.next()
		p.w.s.Apply(e.index, e.cmd)
		log = append(log, e)
	}
	return log
}

// replicatedStory is the log of replicated volumes: a takeover, an outdated replica that
// comes back, a replica that is replaced, a decision to force, and volumes in every phase
// at the end.
func replicatedStory(t testing.TB) *world {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.primary(1, "n1", 7)
	ask1(w)
	w.reportCurrent(1, "n1", inSyncObservation(8))
	w.unstaged(1, "n1", w.volume(1).Publication("n1").Epoch)
	w.ok("node/n1", w.setPrimary(1, "n1", inSyncObservation(8)))
	primary := inSyncObservation(8)
	primary.Primary = true
	w.reportCurrent(1, "n1", primary)
	w.reportCurrent(1, "n2", inSyncObservation(8))
	w.reportCurrent(1, "n1", primary)
	publicationRevoked1(w)
	takeover1(w)
	won := disconnectedObservation(9, standAlone)
	won.Primary = true
	w.reportCurrent(1, "n2", won)
	w.setUnreachable("n1", false)
	w.reportCurrent(1, "n1", ReplicaObservation{Unconfigured: true})
	w.ok(controller, removeReplica("n1"))
	w.ok(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
	w.ok(admin, scheduleNode("n3", true))
	w.readyReplicated(2, createReplicated(2, protocolA))
	w.primary(2, "n2", 7)
	w.ok(controller, createReplicated(3, protocolC))
	w.readyReplicated(4, createReplicated(4, protocolC))
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(4)})
	w.readyReplicated(5, createReplicated(5, protocolC))
	w.reboot("n1")
	w.attach(5, "n1", 2)
	w.setUnreachable("n2", true)
	c := forcePrimary("n1", true)
	c.VolumeId = volumeID(5)
	w.ok(admin, c)
	return w
}

// story is how a played log begins: what chance seldom brings about.
func story(t testing.TB) *world {
	w := newWorld(t)
	w.formatted()
	w.takeSnapshot(1, 1)
	w.ready(2, createFrom(2, fromSnapshot(1)))
	w.ready(3, createFrom(3, fromVolume(1)))
	w.takeGroup(1, 1, 2)
	w.ok(controller, createGroup(2, 2, 3))
	w.report("n1", frozenReport(200, 1), snapshotObservation(201, &fsmpb.Thawed{Attempt: 1}))
	w.staged(2, "n1", 1)
	w.ok("node/n1", &fsmpb.PublishTarget{
		VolumeId: volumeID(2), NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Epoch: w.volume(2).Publications()[0].Epoch.Proto(),
		TargetPath: "/target", Capability: mount(writer), Sequence: 2,
	})
	w.ok(controller, modifyVolume(2, 0, &fsmpb.Limits{ReadIops: 7}))
	w.report("n1", limitsAppliedObservation(2, &fsmpb.Limits{ReadIops: 7}))
	w.ok(controller, expandVolume(2, 2*gib, 0))
	w.ok("node/n9", register("n9"))
	w.ok("admin/ann", &fsmpb.LoseNode{NodeId: "n9", HostId: "host-n9", Reason: "burnt"})
	w.ok("admin/ann", &fsmpb.SetFeatureLevel{Level: MaxFeatureLevel})
	w.headerToRestore(7)
	w.rejected(OutOfRange, controller, expandVolume(1, gib/2, gib/2))
	w.ok("admin/ann", &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
	w.ok("admin/ann", &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
	return w
}
