package replication

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

const aVolume = "hf-00000000-0000-4000-8000-000000000001"

// ADD-REPL-Info-10, -11, -12: the oldest time, and sums that are not negative; no duration where nothing was synchronised.
func TestTheLastSynchronisation(t *testing.T) {
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	for name, tc := range map[string]struct {
		synced   []fsm.SyncResult
		duration time.Duration
		bytes    int64
	}{
		"none ended":             {[]fsm.SyncResult{{}, {}}, 0, 0},
		"one of two":             {[]fsm.SyncResult{{Ended: late, Bytes: 4096, Duration: time.Second}, {}}, time.Second, 4096},
		"both":                   {[]fsm.SyncResult{{Ended: late, Bytes: 4096, Duration: time.Second}, {Ended: early, Bytes: 512, Duration: time.Minute}}, 61 * time.Second, 4608},
		"a clock that went back": {[]fsm.SyncResult{{Ended: late, Bytes: -1, Duration: -time.Second}, {}}, 0, 0},
	} {
		r := &relation{}
		for i, sync := range tc.synced {
			r.members = append(r.members, &member{volume: aVolume, health: fsm.ReplicationHealthy, syncedAt: []time.Time{late, early}[i], lastSync: sync})
		}
		got, err := r.response()
		require.NoError(t, err)
		require.True(t, early.Equal(got.GetLastSyncTime().AsTime()), name)
		require.Equal(t, tc.bytes, got.GetLastSyncBytes(), name)
		require.Equal(t, tc.duration != 0, got.GetLastSyncDuration() != nil, name)
		require.Equal(t, tc.duration, got.GetLastSyncDuration().AsDuration(), name)
	}
}

// ADD-REPL-Info-14, -15: the worst status, whose message has 128 bytes at most.
func TestAStatusMessageIsShort(t *testing.T) {
	for health, want := range statuses {
		r := &relation{members: []*member{
			{volume: aVolume, health: fsm.ReplicationHealthy, syncedAt: time.Unix(100, 0)},
			{volume: aVolume, health: health, message: strings.Repeat("é", 500), syncedAt: time.Unix(100, 0)},
		}}
		got, err := r.response()
		require.NoError(t, err)
		require.Equal(t, want, got.GetStatus())
		require.NotEmpty(t, got.GetStatusMessage())
		require.LessOrEqual(t, len(got.GetStatusMessage()), 128, got.GetStatusMessage())
	}
}
