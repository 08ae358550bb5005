package fsm

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S25: each bound of an expansion, at it and one beside it.
func TestS25_TheBoundsOfAnExpansion(t *testing.T) {
	const unit = VolumeSizeUnit
	v := &Volume{Size: 4 * unit}
	for name, tc := range map[string]struct {
		required, limit int64
		size            int64
		reason          Reason
	}{
		"nothing is asked for":                    {reason: Invalid},
		"below nothing":                           {required: -1, reason: Invalid},
		"a limit below nothing":                   {limit: -1, reason: Invalid},
		"a limit alone, of its size":              {limit: 4 * unit, size: 4 * unit},
		"a limit alone, below its size":           {limit: 4*unit - 1, reason: OutOfRange},
		"a limit alone, above it":                 {limit: 9 * unit, size: 4 * unit},
		"smaller than it is":                      {required: unit, size: 4 * unit},
		"of its size":                             {required: 4 * unit, size: 4 * unit},
		"one byte more":                           {required: 4*unit + 1, size: 5 * unit},
		"one byte more, and no more than a unit":  {required: 4*unit + 1, limit: 5 * unit, size: 5 * unit},
		"one byte more, and less than a unit":     {required: 4*unit + 1, limit: 5*unit - 1, reason: OutOfRange},
		"exactly one size":                        {required: 5 * unit, limit: 5 * unit, size: 5 * unit},
		"a limit below what is required":          {required: 6 * unit, limit: 5 * unit, reason: Invalid},
		"the largest volume":                      {required: MaxVolumeSize, size: MaxVolumeSize},
		"one byte more than the largest volume":   {required: MaxVolumeSize + 1, reason: OutOfRange},
		"the largest number, which is not a size": {required: 1<<63 - 1, reason: OutOfRange},
	} {
		t.Run(name, func(t *testing.T) {
			size, rej := v.expandedSize(tc.required, tc.limit)
			require.Equal(t, tc.size, size)
			if tc.reason == 0 {
				require.Nil(t, rej)
				return
			}
			require.NotNil(t, rej)
			require.Equal(t, tc.reason, rej.Reason)
		})
	}
}

// A record of replication differs in whatever field differs: a change that were taken for none would never be written.
func TestReplicationRecordsDifferInEachField(t *testing.T) {
	base := func() *Replication {
		return &Replication{Protocol: fsmpb.Protocol_PROTOCOL_C, ReplicaCount: 2, Primary: &PrimaryGrant{Index: 3}, Forced: &ForcedPrimary{Host: "h"}, Leaving: []HostID{"l"}, Conversion: &Conversion{Began: 1}, Revert: &Revert{Index: 1}}
	}
	require.True(t, base().equal(base()), "values are compared, not where they are")
	fields := reflect.TypeFor[Replication]()
	for i := range fields.NumField() {
		changed := base()
		setOther(t, reflect.ValueOf(changed).Elem().Field(i))
		require.False(t, base().equal(changed), "%s differs", fields.Field(i).Name)
		require.False(t, changed.equal(base()), "%s differs", fields.Field(i).Name)
	}
}

// setOther gives a field another value than it has.
func setOther(t *testing.T, f reflect.Value) {
	t.Helper()
	switch f.Kind() {
	case reflect.Pointer, reflect.Slice:
		f.SetZero()
	case reflect.String:
		f.SetString(f.String() + "x")
	case reflect.Int32, reflect.Int64, reflect.Int:
		f.SetInt(f.Int() + 1)
	case reflect.Uint32, reflect.Uint64:
		f.SetUint(f.Uint() + 1)
	default:
		t.Fatalf("a field of kind %s: say how it differs", f.Kind())
	}
}

// Replicas of other hosts, or with another synchronisation, are another record.
func TestReplicationDiffersByItsReplicas(t *testing.T) {
	volume := func(hosts ...HostID) *Volume {
		v := &Volume{Replication: &Replication{}}
		for _, h := range hosts {
			v.Replicas = append(v.Replicas, Replica{Host: h, ReplicaSync: &ReplicaSync{Attachment: 1}})
		}
		return v
	}
	require.True(t, volume("a", "b").sameReplication(volume("a", "b")))
	require.False(t, volume("a", "b").sameReplication(volume("a", "c")))
	require.False(t, volume("a", "b").sameReplication(volume("a")))
	other := volume("a", "b")
	other.Replicas[1].ReplicaSync = &ReplicaSync{Attachment: 2}
	require.False(t, volume("a", "b").sameReplication(other))
	other.Replicas[1].ReplicaSync = nil
	require.False(t, volume("a", "b").sameReplication(other))
	require.False(t, other.sameReplication(volume("a", "b")))
}
