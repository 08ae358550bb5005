package fsm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// storiesOfTheNewestLevel are logs of what chance seldom brings about: each command of the newest level is accepted in one.
func storiesOfTheNewestLevel(t testing.TB) [][]entry {
	return [][]entry{adoptedStory(t), operatedStory(t), joinedStory(t), importedStory(t), adoptedSnapshotsStory(t), importedPairStory(t), outOfServiceStory(t)}
}

// outOfServiceStory is the log of a node that goes out of service with a volume in use, and returns.
func outOfServiceStory(t testing.TB) []entry {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.setUnreachable("n1", true)
	w.twice(controller, takeOut("n1"))
	severed1(w)
	w.ok(controller, publish(1, "n2"))
	w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
	w.ok("node/n1", replicating("n1"))
	acknowledge1(w)
	w.twice(controller, w.returning("n1"))
	w.ok("node/n1", replicating("n1"))
	return w.log
}

// adoptedStory is the log of a restored cluster whose hosts know a volume that is newer than the backup.
func adoptedStory(t testing.TB) []entry {
	lost := newPair(t)
	before := slices.Clone(lost.log)
	w := lost.lostAfter(func() {
		lost.readyReplicated(1, createReplicated(1, protocolC))
		lost.primary(1, "n1", 7)
	})
	w.twice(admin, adopt(1, lost.held(1, "n1"), lost.held(1, "n2")))
	for _, node := range []string{"n1", "n2"} {
		w.ok(admin, &fsmpb.AdoptNode{NodeId: node, HostId: "host-" + node, Incarnation: 2})
	}
	seen := inSyncObservation(7)
	seen.Primary = true
	w.reportCurrent(1, "n1", seen)
	w.reportCurrent(1, "n2", inSyncObservation(7))
	return append(before, w.log...)
}

// adoptedSnapshotsStory is the log of a restored cluster whose hosts keep snapshots that are newer than the backup: one, those of
// a group, and a kept copy.
func adoptedSnapshotsStory(t testing.TB) []entry {
	lost := newLoser(t)
	lost.ready(2, create(2))
	lost.ready(3, create(3))
	before := slices.Clone(lost.log)
	node := lost.volume(2).Replicas[0].Node
	w := lost.lostAfter(func() {
		lost.ok(controller, createSnapshot(1, 2))
		lost.report(string(node), takenReport(1, 7, 0))
		lost.ok("node/n1", lost.keepReplica(4, "n1"))
		lost.report("n1", keptFact(4, "n1"))
		lost.ok(controller, createGroup(1, 2, 3))
		for _, report := range []func(int) *fsmpb.Observation{func(n int) *fsmpb.Observation { return frozenReport(n, 1) }, func(n int) *fsmpb.Observation { return takenReport(n, 9, 1) }} {
			for _, n := range []int{100, 101} {
				lost.report(string(lost.snapshot(n).Node), report(n))
			}
		}
	})
	w.twice(admin, adoptSnapshots(lost.heldSnapshot(1)))
	w.twice(admin, adoptSnapshots(lost.heldSnapshot(4)))
	w.twice(admin, adoptSnapshots(lost.heldSnapshot(100), lost.heldSnapshot(101)))
	for _, node := range []string{"n1", "n2"} {
		w.ok(admin, &fsmpb.AdoptNode{NodeId: node, HostId: "host-" + node, Incarnation: 2})
	}
	return append(before, w.log...)
}

// operatedStory is the log of what operators do to controllers, hosts and certificates.
func operatedStory(t testing.TB) []entry {
	w := newPair(t)
	w.readyReplicated(1, createReplicated(1, protocolC))
	for _, c := range []proto.Message{
		demoteMember("m1"), demoteMember("m2"), &fsmpb.SetMemberRole{MemberId: "m1"},
		claim("n1"), release("n1"), claim("n2"),
		revokeUntil("node", "n9", start), revokeSerials("admin", "bob", "ab", "1"),
		voters(revokeUntil("controller", "c1", start), "c1", "c2", "c3"),
	} {
		w.twice(admin, c)
	}
	r, known := w.s.Revocation("admin", "bob")
	require.True(t, known)
	w.twice(admin, &fsmpb.UnrevokeIdentity{Role: "admin", Name: "bob", Since: r.Since})
	return w.log
}

// joinedStory is the log of a controller and a node that join with tokens, and of calls that the log does not decide.
func joinedStory(t testing.TB) []entry {
	w := newWorld(t)
	of := createToken(1, "controller", "c4")
	w.twice(admin, of)
	w.twice(controller, useToken(of, 7))
	w.rejected(Precondition, controller, useToken(of, 8))
	w.twice(admin, createToken(2, "node", "n9"))
	w.twice(admin, &fsmpb.RevokeJoinToken{TokenId: createToken(2, "node", "n9").GetTokenId()})
	w.twice(controller, attestedToken(3, "n8", 7))
	w.rejected(Precondition, controller, attestedToken(3, "n8", 8))
	w.twice("admin/ann", &fsmpb.RecordOperatorCall{Call: "members remove", Subject: "member c2"})
	return w.log
}

// importedStory is the log of a logical volume that becomes a volume, and is given back.
func importedStory(t testing.TB) []entry {
	w := newLVMWorld(t)
	w.importReady(1)
	w.twice(admin, &fsmpb.ForgetImport{VolumeId: volumeID(1), DeviceId: w.importVolume(1).GetDeviceId()})
	return w.log
}

// importedPairStory is the log of the replicas of DRBD resources of others that become a replicated volume, and a plain one.
func importedPairStory(t testing.TB) []entry {
	w := newLVMPair(t)
	w.importedPairReady(1)
	alone := w.importDRBD(2, "n1")
	alone.Name, alone.Replicas[0].DeviceId, alone.Replicas[0].Format = "alone", "another", DRBDFormat8
	w.twice(admin, alone)
	w.takenIn(2, "n1")
	w.twice(admin, &fsmpb.ForgetImport{VolumeId: volumeID(2), DeviceId: "another"})
	return w.log
}

// forcedStory is the log of a role between two sites that is taken by force and given back.
func forcedStory(t testing.TB) []entry {
	w := newLeftBehind(t)
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.severed(1, "B")
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.siteUnreachable("A", false)
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("A", resync(sourceOf(1), true))
	return w.log
}

// sweptStory is the log of the loss of a host with more volumes than one entry writes.
func sweptStory(t testing.TB) []entry {
	w := newWorld(t)
	for n := range 300 {
		w.ok(controller, create(n))
	}
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
	require.NotZero(t, w.continueSweeps())
	return w.log
}

// rotatedStory is the log of an encrypted volume whose key is being rotated.
func rotatedStory(t *testing.T) []entry {
	w := stagedEncrypted(t)
	w.begin([]uint32{0}, nil)
	w.added(1)
	return w.log
}
