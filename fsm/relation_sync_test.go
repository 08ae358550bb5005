package fsm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S56: the bytes of a resynchronisation are those that a host saw out of sync, also where its first look was too early.
func TestS56_TheLastResynchronisationHasItsBytes(t *testing.T) {
	source, target := fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE, fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
	replica := func(c fsmpb.ConnectionState, upToDate bool, outOfSync int64) Replica {
		return Replica{State: ReplicaPresent, ReplicaSync: &ReplicaSync{UpToDate: upToDate, Observed: ReplicaObservation{Connection: c, OutOfSync: outOfSync}}}
	}
	v := &Volume{Replication: &Replication{}, RelationMember: &RelationMember{}}
	began := time.Unix(100, 0)
	for i, replicas := range [][]Replica{
		{replica(source, true, 0), replica(target, false, 0)},
		{replica(source, true, 0), replica(target, false, 1<<20)},
		{replica(source, true, 1<<20), replica(fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED, true, 0)},
	} {
		v.Replicas = replicas
		v.noteSync(began.Add(time.Duration(i) * time.Second))
	}
	require.Equal(t, SyncResult{Ended: began.Add(2 * time.Second), Bytes: 1 << 20, Duration: 2 * time.Second}, v.RelationMember.LastSync)
	require.Zero(t, v.RelationMember.Sync)
}
