package raftsim

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// follower is a bare member of hashicorp/raft on a log, and its leader is played by the test.
type follower struct {
	*raft.Raft
	transport *raft.InmemTransport
}

// stateless is a state machine without state.
type stateless struct{}

func (stateless) Apply(*raft.Log) any                 { return nil }
func (stateless) Snapshot() (raft.FSMSnapshot, error) { return nil, nil }
func (stateless) Restore(r io.ReadCloser) error       { return r.Close() }

func newFollower(t *testing.T, logs raft.LogStore, stable raft.StableStore, snapshots raft.SnapshotStore) *follower {
	t.Helper()
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = "follower", hclog.NewNullLogger()
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = time.Hour, time.Hour, time.Hour
	_, transport := raft.NewInmemTransport("follower")
	r, err := raft.NewRaft(config, stateless{}, logs, stable, snapshots, transport)
	require.NoError(t, err)
	f := &follower{r, transport}
	t.Cleanup(func() { require.NoError(t, f.Shutdown().Error()) })
	return f
}

// The leader of term 3 has a Raft snapshot at entry 15; the follower has entries up to 20 of term 2, of which those from
// 15 on were never committed.
const snapshotIndex, snapshotTerm, logEnd, logTerm = 15, 3, 20, 2

func leaderHeader(address raft.ServerAddress) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("leader"), Addr: []byte(address)}
}

// install sends the Raft snapshot, and the entry behind it; it tells whether that was taken.
func (f *follower) install(t *testing.T) bool {
	t.Helper()
	for now := time.Now().UnixMilli(); now == time.Now().UnixMilli(); { // a Raft snapshot is named by its millisecond
		time.Sleep(100 * time.Microsecond)
	}
	address, leader := raft.NewInmemTransport("leader")
	leader.Connect(f.transport.LocalAddr(), f.transport)
	configuration := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "leader", Address: address}, {ID: "follower", Address: "follower"}}})
	content := "the state"
	var installed raft.InstallSnapshotResponse
	require.NoError(t, leader.InstallSnapshot("follower", f.transport.LocalAddr(), &raft.InstallSnapshotRequest{
		RPCHeader: leaderHeader(address), SnapshotVersion: raft.SnapshotVersionMax, Term: snapshotTerm, LastLogIndex: snapshotIndex, LastLogTerm: snapshotTerm,
		Configuration: configuration, ConfigurationIndex: 1, Size: int64(len(content)),
	}, &installed, strings.NewReader(content)))
	require.True(t, installed.Success)
	return f.takes(t)
}

// takes tells whether the follower takes the entry behind the Raft snapshot.
func (f *follower) takes(t *testing.T) bool {
	t.Helper()
	address, leader := raft.NewInmemTransport("leader")
	leader.Connect(f.transport.LocalAddr(), f.transport)
	var appended raft.AppendEntriesResponse
	require.NoError(t, leader.AppendEntries("follower", f.transport.LocalAddr(), &raft.AppendEntriesRequest{
		RPCHeader: leaderHeader(address), Term: snapshotTerm, PrevLogEntry: snapshotIndex, PrevLogTerm: snapshotTerm,
		Entries: []*raft.Log{{Index: snapshotIndex + 1, Term: snapshotTerm}},
	}, &appended))
	return appended.Success
}

// divergentLog stores the follower's log.
func divergentLog(t *testing.T, logs raft.LogStore, stable raft.StableStore) {
	t.Helper()
	require.NoError(t, stable.SetUint64([]byte("CurrentTerm"), logTerm))
	for i := uint64(1); i <= logEnd; i++ {
		require.NoError(t, logs.StoreLog(&raft.Log{Index: i, Term: logTerm, Data: fmt.Append(nil, i)}))
	}
}

// TestWithoutTheSanitiserAFollowerIsSentTheSameSnapshotForEver shows the livelock of hashicorp/raft 1.8, and fails when a
// newer one no longer has it: then the remedies may go.
func TestWithoutTheSanitiserAFollowerIsSentTheSameSnapshotForEver(t *testing.T) {
	memory, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	divergentLog(t, memory, memory)
	f := newFollower(t, memory, memory, snapshots)
	for range 3 {
		require.False(t, f.install(t))
	}
	require.NoError(t, f.Shutdown().Error())
	f = newFollower(t, memory, memory, snapshots)
	require.False(t, f.takes(t), "a restart alone does not help")
}

// TestS131_TheStoresLogIsSanitisedAtTheNextStart shows the remedy: the restore loop of raftnode ends the process, and the store
// makes the log continue the Raft snapshot before raft sees it.
func TestS131_TheStoresLogIsSanitisedAtTheNextStart(t *testing.T) {
	for _, kind := range []string{store.WAL, store.BoltDB} {
		t.Run(kind, func(t *testing.T) {
			o := store.Options{Dir: memoryDir(t) + "/member", Kind: kind}
			s, err := store.Open(o)
			require.NoError(t, err)
			divergentLog(t, s.Logs, s.Stable)
			f := newFollower(t, s.Logs, s.Stable, s.Snapshots)
			for range 3 {
				require.False(t, f.install(t), "the running process does not get out of it")
			}
			require.NoError(t, f.Shutdown().Error())
			require.NoError(t, s.Close())
			s, err = store.Open(o)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			f = newFollower(t, s.Logs, s.Stable, s.Snapshots)
			require.True(t, f.takes(t))
			require.NoError(t, f.Shutdown().Error())
		})
	}
}
