package fsm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// commandSince is the level that a command needs whatever its fields hold.
func commandSince(name protoreflect.FullName) uint32 {
	for i := range oneof.Fields().Len() {
		if f := oneof.Fields().Get(i); f.Message().FullName() == name {
			return sinceOf(f)
		}
	}
	return 0
}

// S72: a field, command or fact of a newer build stops the member, at any depth.
func TestS72_AFieldThatIsNotKnownIsAFault(t *testing.T) {
	odd := protowire.AppendVarint(protowire.AppendTag(nil, 2047, protowire.VarintType), 1)
	for name, plant := range map[string]func() *fsmpb.Command{
		"in the envelope": func() *fsmpb.Command {
			cmd := envelope(controller, "x", 0, create(1))
			cmd.ProtoReflect().SetUnknown(odd)
			return cmd
		},
		"in the command": func() *fsmpb.Command {
			c := create(1)
			c.ProtoReflect().SetUnknown(odd)
			return envelope(controller, "x", 0, c)
		},
		"inside a list": func() *fsmpb.Command {
			c := create(1)
			c.Capabilities[0].ProtoReflect().SetUnknown(odd)
			return envelope(controller, "x", 0, c)
		},
		"a fact": func() *fsmpb.Command {
			o := &fsmpb.Observation{VolumeId: volumeID(1)}
			o.ProtoReflect().SetUnknown(odd)
			return envelope("node/n1", "x", 0, &fsmpb.Report{NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Observations: []*fsmpb.Observation{o}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cmd := plant()
			require.Panics(t, func() { w.s.Apply(w.index+1, cmd) })
		})
	}
}

// S72: what a level does not have changes nothing at it.
func TestS72_ACommandAboveTheLevelIsRejected(t *testing.T) {
	w := newWorldAt(t, Level1)
	for range 2 {
		cmd := envelope(controller, "newer", w.index, create(1))
		cmd.SchemaVersion = Level2
		require.Equal(t, Unsupported, reasonOf(w.applyEnvelope(cmd)))
	}
	require.Empty(t, w.contents()[1:])
	w.ok(admin, &fsmpb.SetFeatureLevel{Level: Level2})
	w.ok(controller, create(1))
}

// S72: a request to raise the level in an envelope of level 1 was refused by builds of level 1,
// and still is.
func TestS72_RaisingTheLevelTakesAnEnvelopeOfThatLevel(t *testing.T) {
	w := newWorldAt(t, Level1)
	cmd := envelope(admin, "old", w.index, &fsmpb.SetFeatureLevel{Level: Level2})
	cmd.SchemaVersion = Level1
	out := w.applyEnvelope(cmd)
	require.Equal(t, Unsupported, reasonOf(out))
	require.Equal(t, "feature level 2 is above 1, the highest that this build understands", out.GetRejection().GetMessage())
	require.Equal(t, Level1, w.s.Cluster().FeatureLevel)
}

// S72: the text of a rejection is for people: two builds may word it differently.
// At level 1 it is hashed, as the first build did.
func TestS72_TextsOfRejectionsAreNotHashed(t *testing.T) {
	for level, equal := range map[uint32]bool{Level1: false, Level2: true} {
		w := newWorldAt(t, level)
		w.rejected(NotFound, controller, publish(9, "n1"))
		_, last, _ := w.s.answers.Max()
		reworded := *last
		reworded.outcome = proto.CloneOf(last.outcome)
		reworded.outcome.Rejection.Message = "in other words"
		before := w.s.Hash()
		w.s.removeAnswer(last)
		w.s.putAnswer(&reworded)
		require.Equal(t, equal, before == w.s.Hash(), "level %d", level)
		require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
	}
}

// S72: a level is raised over records of the one before without writing them again.
func TestS72_RaisingTheLevelKeepsEveryRecord(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
	before := w.contents()
	w.ok(admin, &fsmpb.SetFeatureLevel{Level: Level2})
	require.Equal(t, before, w.contents())
	require.Equal(t, w.s.Hash(), restored(t, w.s).Hash())
}

// S72: Trim leaves of a message what a build of the older level would have written, at any
// depth.
func TestS72_TrimRemovesWhatALevelDoesNotKnow(t *testing.T) {
	known := map[protoreflect.FullName]*shape{}
	s := shapeOf((&fsmpb.Command{}).ProtoReflect().Descriptor(), known)
	later := func(message, field protoreflect.Name) {
		of := known["holdfast.fsm.v1."+protoreflect.FullName(message)]
		for i, f := range of.fields {
			if f.field.Name() == field {
				of.fields[i].since = Level2
				return
			}
		}
		of.fields = append(of.fields, shapeField{field: fieldOfPool(t, field), since: Level2})
	}
	later("RegisterNode", "replication")
	later("Pool", "backend")
	registered := register("n1")
	registered.Replication = &fsmpb.Replication{Address: "192.0.2.1"}
	cmd := envelope("node/n1", "x", 0, registered)
	level, unknown := s.inspect(cmd.ProtoReflect())
	require.Equal(t, Level2, level)
	require.False(t, unknown)
	for range 2 {
		s.trim(cmd.ProtoReflect(), Level1)
		require.Nil(t, cmd.GetRegisterNode().GetReplication())
		require.Empty(t, cmd.GetRegisterNode().GetPools()[0].GetBackend())
		require.Equal(t, "pool-n1", cmd.GetRegisterNode().GetPools()[0].GetPoolId())
	}
	level, _ = s.inspect(cmd.ProtoReflect())
	require.Equal(t, Level1, level)
}

// fieldOfPool is a scalar, which a shape lists where a later level brought it only.
func fieldOfPool(t *testing.T, field protoreflect.Name) protoreflect.FieldDescriptor {
	t.Helper()
	d := (&fsmpb.Pool{}).ProtoReflect().Descriptor().Fields().ByName(field)
	require.NotNil(t, d)
	return d
}

// S72: a proposer checks a command against the cluster's level first.
func TestS72_TooNewCommandsAreUnsupported(t *testing.T) {
	odd := envelope(controller, "x", 0, create(1))
	odd.GetCreateVolume().ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 2047, protowire.VarintType), 1))
	says := envelope(controller, "x", 0, create(1))
	says.SchemaVersion = Level2
	for name, tc := range map[string]struct {
		level uint32
		cmd   *fsmpb.Command
		want  Reason
	}{
		"a command of the level":           {Level1, envelope(controller, "x", 0, create(1)), 0},
		"one that says a higher one":       {Level1, says, Unsupported},
		"the same once the level rose":     {Level2, says, 0},
		"a field that is not known":        {Level2, odd, Unsupported},
		"no command that is known":         {Level2, &fsmpb.Command{}, Unsupported},
		"raising the level says it itself": {Level1, envelope(admin, "x", 0, &fsmpb.SetFeatureLevel{Level: Level2}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				require.Equal(t, tc.want, TooNew(tc.level, tc.cmd).Why())
			}
		})
	}
}

// S72: a leader of level 1 appended fields that it did not know, as others sent them to it.
// Its members ignored those fields, and so does this build, so that the states are equal. An
// entry whose envelope has the higher level is refused.
func TestS72_FieldsUnknownToALevel1LeaderAreIgnored(t *testing.T) {
	since := &shapes["holdfast.fsm.v1.RegisterNode"].fields
	kept := slices.Clone(*since)
	defer func() { *since = kept }()
	i := slices.IndexFunc(*since, func(f shapeField) bool { return f.field.Name() == "replication" })
	(*since)[i].since = Level2

	blind, sees := newWorldAt(t, Level1), newWorldAt(t, Level1)
	with := register("n2")
	with.Replication = &fsmpb.Replication{Address: "192.0.2.1", PublicKey: make([]byte, publicKeyLen), Version: "8.4.11", MaxReplicas: 2}
	entry := envelope("node/n2", "x", sees.index, with)
	entry.SchemaVersion = Level1
	before := proto.CloneOf(entry)
	sees.applyEnvelope(entry)
	require.True(t, proto.Equal(before, entry), "the entry is left as it was")
	without := envelope("node/n2", "x", blind.index, register("n2"))
	without.SchemaVersion = Level1
	blind.applyEnvelope(without)
	require.Equal(t, blind.s.Hash(), sees.s.Hash())
	require.Equal(t, blind.contents(), sees.contents())

	says := envelope("node/n2", "y", sees.index, with)
	says.SchemaVersion = Level2
	require.Equal(t, Unsupported, reasonOf(sees.applyEnvelope(says)))
}

// S72: at level 1 the removal of a cancelled snapshot must be done like any other, and a
// request to cancel it is refused as before.
func TestS72_TheRemovalOfACancelledSnapshotIsNotCancelledAtLevel1(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	w.ok(controller, createSnapshot(1, 1))
	w.ok(admin, &fsmpb.CancelOperation{OperationId: uint64(w.snapshot(1).Operation.ID)})
	w.ok(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
	w.rejected(Precondition, admin, &fsmpb.CancelOperation{OperationId: uint64(w.snapshot(1).Operation.ID)})
}

// S72: so is the removal of a volume, whatever its last failure says.
func TestS72_ADeletionIsNotCancelledAtLevel1(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	op := w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}).GetOperationId()
	w.report("n1", stepFailedOf(1, &fsmpb.StepFailed{Step: "remove", Error: cancelled}))
	require.Equal(t, cancelled, w.volume(1).Operation.LastError)
	w.rejected(Precondition, admin, &fsmpb.CancelOperation{OperationId: op})
}
