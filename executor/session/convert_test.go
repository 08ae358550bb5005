package session

import (
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// roundTrip encodes and decodes a desired volume.
func roundTrip(t *testing.T, d fsm.DesiredVolume) fsm.DesiredVolume {
	t.Helper()
	raw, err := proto.Marshal(desiredVolumeToProto(d))
	require.NoError(t, err)
	var p sessionpb.DesiredVolume
	require.NoError(t, proto.Unmarshal(raw, &p))
	return desiredVolumeFromProto(&p)
}

func TestEveryFieldOfADesiredVolumeCrossesTheWire(t *testing.T) {
	var full fsm.DesiredVolume
	var n int64
	fillDistinct(reflect.ValueOf(&full).Elem(), &n)
	require.NotNil(t, full.Publication.Staging)
	require.NotEqual(t, full.Publication.Capability, full.Publication.Targets[1].Capability)
	require.NotEqual(t, full.Replication.Observed.Generation, full.Replication.Generation)
	require.Len(t, full.Replication.Peer.PublicKey, 2)
	for range 2 {
		require.Equal(t, full, roundTrip(t, full))
	}
	for name, d := range map[string]fsm.DesiredVolume{
		"no goal":                         {},
		"a publication without a staging": {Publication: &fsm.Publication{}},
		"a staging without targets":       {Publication: &fsm.Publication{Staging: &fsm.Staging{}}},
		"a teardown of the zero epoch":    {Teardown: &fsm.Teardown{}},
		"a replica without a peer":        {Replication: &fsm.DesiredReplica{}},
		"a peer that has no key yet":      {Replication: &fsm.DesiredReplica{Peer: &fsm.ReplicaPeer{}}},
		"a fingerprint that is no text":   {Publication: &fsm.Publication{Capability: fsm.Capability{Flags: "\xff\x00"}, Targets: []fsm.Target{{Fingerprint: "\xfe"}}}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, d, roundTrip(t, d)) })
	}
}

// roundTripSnapshot encodes and decodes a desired snapshot.
func roundTripSnapshot(t *testing.T, d fsm.DesiredSnapshot) fsm.DesiredSnapshot {
	t.Helper()
	raw, err := proto.Marshal(desiredSnapshotToProto(d))
	require.NoError(t, err)
	var p sessionpb.DesiredSnapshot
	require.NoError(t, proto.Unmarshal(raw, &p))
	return desiredSnapshots.read(&p)
}

func TestEveryFieldOfADesiredSnapshotCrossesTheWire(t *testing.T) {
	var full fsm.DesiredSnapshot
	var n int64
	fillDistinct(reflect.ValueOf(&full).Elem(), &n)
	for range 2 {
		require.Equal(t, full, roundTripSnapshot(t, full))
		require.Equal(t, fsm.DesiredSnapshot{}, roundTripSnapshot(t, fsm.DesiredSnapshot{}))
	}
}

func TestEveryFieldOfAHostsPoolsCrossesTheWire(t *testing.T) {
	var full []executor.PoolFacts
	var n int64
	fillDistinct(reflect.ValueOf(&full).Elem(), &n)
	raw, err := proto.Marshal(telemetryToProto(full))
	require.NoError(t, err)
	var p sessionpb.Telemetry
	require.NoError(t, proto.Unmarshal(raw, &p))
	require.Len(t, p.GetPools(), len(full))
	for i := range full {
		require.Equal(t, full[i], poolFacts.read(p.GetPools()[i]))
	}
}

// An item is of a volume or of a snapshot: the wire has one id for both.
func TestEveryFieldOfAnInventoryItemCrossesTheWire(t *testing.T) {
	for _, item := range []executor.InventoryItem{
		{Kind: executor.KindImage, Volume: fsm.VolumeIDFrom([16]byte{1}), Path: "/p/1"},
		{Kind: executor.KindSnapshot, Snapshot: fsm.SnapshotIDFrom([16]byte{2}), Path: "/p/2"},
		{Kind: executor.KindMapping, HeaderRead: true, HeaderUUID: "u", WrongDevice: "/dev/x"},
		{Kind: executor.KindHeld, Volume: fsm.VolumeIDFrom([16]byte{3}), Held: "manifest"},
		{Kind: executor.KindCandidate, Path: "/dev/dm-4", Candidate: "candidate"},
	} {
		require.Equal(t, item, inventoryItemFromProto(inventoryItemToProto(item)))
	}
	require.Equal(t, 9, reflect.TypeFor[executor.InventoryItem]().NumField(), "a new field needs a place on the wire, and above")
}

func FuzzDesiredSnapshotRoundTrip(f *testing.F) {
	f.Add("hs-1", "hf-1", "p", "hgs-1", int64(1), uint32(2), uint64(3), true)
	f.Fuzz(func(t *testing.T, id, source, pool, group string, size int64, small uint32, sequence uint64, flag bool) {
		if !utf8.ValidString(id + source + pool + group) {
			t.Skip("ids came in as protobuf text, so they are valid UTF-8")
		}
		d := fsm.DesiredSnapshot{
			Snapshot: fsm.SnapshotID(id), Source: fsm.VolumeID(source), Pool: fsm.PoolID(pool), Size: size,
			Goal: fsm.SnapshotGoal(uint8(small)), Group: fsm.GroupSnapshotID(group), Attempt: small, Sequence: sequence, Frozen: flag,
		}
		require.Equal(t, d, roundTripSnapshot(t, d))
	})
}

// fillDistinct gives every field a value of its own, so that a lost or swapped field shows.
func fillDistinct(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillDistinct(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fillDistinct(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillDistinct(v.Index(0), n)
		fillDistinct(v.Index(1), n)
	case reflect.String:
		v.SetString(string(rune('A' + *n)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	default:
		panic("a desired state has a field of a kind that this test does not know: " + v.Kind().String())
	}
}

func FuzzDesiredVolumeRoundTrip(f *testing.F) {
	f.Add("hf-1", "p", "ext4", int64(1), uint64(2), uint64(3), uint32(1), true, []byte{1})
	f.Fuzz(func(t *testing.T, volume, pool, text string, size int64, incarnation, index uint64, small uint32, flag bool, print []byte) {
		if !utf8.ValidString(volume + pool + text) {
			t.Skip("ids and paths came in as protobuf text, so they are valid UTF-8")
		}
		capability := fsm.Capability{Block: flag, FSType: text, Flags: string(print)}
		d := fsm.DesiredVolume{
			Volume: fsm.VolumeID(volume), Pool: fsm.PoolID(pool), Size: size, Goal: fsm.Goal(uint8(small)),
			Format: fsm.Format{FSType: text, FSUUID: pool, Epoch: fsm.Epoch{Incarnation: incarnation, Index: index}, Cloned: flag},
			Source: fsm.Source{Snapshot: fsm.SnapshotID(text), Volume: fsm.VolumeID(pool)}, SourceSize: size,
			Limits:   fsm.Limits{ReadIOPS: index, WriteIOPS: incarnation, ReadBPS: uint64(small), WriteBPS: index},
			Sequence: index, Operation: fsm.OperationID(incarnation), Attempt: small, ReplicaState: fsm.ReplicaState(uint8(small >> 8)),
		}
		if flag {
			d.Teardown = &fsm.Teardown{Node: fsm.NodeID(text), Host: fsm.HostID(volume), Epoch: fsm.Epoch{Index: index}}
			d.Publication = &fsm.Publication{
				Node: fsm.NodeID(pool), Capability: capability, Staging: &fsm.Staging{Path: text, Boot: pool, Capability: capability},
				Targets: []fsm.Target{{Path: text, Fingerprint: string(print), Done: flag}}, Ending: flag, UsedBy: text,
			}
			d.Replication = &fsm.DesiredReplica{
				Minor: small, Generation: index, InitialSyncDone: flag, Address: text, Attachment: incarnation, BackingCapacity: size, InSyncUUID: index, DiskFailed: index,
				Observed: fsm.ReplicaObservation{Boot: pool, Attachment: index, UUID: incarnation, Generation: index, SyncPercent: small, BackingCapacity: size},
				Peer:     &fsm.ReplicaPeer{Node: fsm.NodeID(text), PublicKey: append([]byte(nil), print...), UpToDate: flag, Incomplete: !flag},
			}
		}
		require.Equal(t, d, roundTrip(t, d))
	})
}

func FuzzDesiredVolumeFromAnyBytes(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p sessionpb.DesiredVolume
		if proto.Unmarshal(raw, &p) != nil {
			return
		}
		once := desiredVolumeFromProto(&p) // both ends decode alike
		require.Equal(t, once, desiredVolumeFromProto(desiredVolumeToProto(once)))
	})
}
