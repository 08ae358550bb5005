package store

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// counterFSM is a state machine that counts what it applied.
type counterFSM struct{ n uint64 }

func (c *counterFSM) Apply(*raft.Log) any                 { c.n++; return c.n }
func (c *counterFSM) Snapshot() (raft.FSMSnapshot, error) { return counterSnapshot(c.n), nil }
func (c *counterFSM) Restore(r io.ReadCloser) error {
	_, err := fmt.Fscanf(r, "state %d", &c.n)
	return err
}

type counterSnapshot uint64

func (c counterSnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := fmt.Fprintf(sink, "state %d", uint64(c)); err != nil {
		_ = sink.Cancel()
		return err
	}
	return sink.Close()
}
func (counterSnapshot) Release() {}

type raftMember struct {
	*raft.Raft
	fsm   *counterFSM
	trans *raft.InmemTransport
}

// start runs one Raft member on a store.
func start(t *testing.T, s *Store, timeout time.Duration) *raftMember {
	t.Helper()
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(s.MemberID)
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = timeout, timeout, timeout
	conf.CommitTimeout = time.Millisecond
	conf.TrailingLogs = 20
	conf.Logger = hclog.NewNullLogger()
	m := &raftMember{fsm: &counterFSM{}}
	_, m.trans = raft.NewInmemTransport(raft.ServerAddress(s.MemberID))
	r, err := raft.NewRaft(conf, m.fsm, s.Logs, s.Stable, s.Snapshots, m.trans)
	require.NoError(t, err)
	m.Raft = r
	t.Cleanup(m.stop)
	return m
}

func (m *raftMember) stop() { _ = m.Shutdown().Error() }

func TestRaftRunsOnTheStoreThroughRestarts(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind string) {
		s := open(t, fastDir(t), kind)
		conf := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(s.MemberID), Address: raft.ServerAddress(s.MemberID)}}}
		m := start(t, s, 20*time.Millisecond)
		require.NoError(t, m.BootstrapCluster(conf).Error())
		var want uint64
		for range 3 {
			require.Eventually(t, func() bool { return m.State() == raft.Leader }, time.Minute, time.Millisecond)
			for i := range 60 {
				want++
				f := m.Apply(fmt.Appendf(nil, "command %d", i), time.Minute)
				require.NoError(t, f.Error())
				require.Equal(t, want, f.Response())
			}
			require.NoError(t, m.Snapshot().Error())
			m.stop()
			s = reopen(t, s, kind)
			m = start(t, s, 20*time.Millisecond)
		}
		first, err := s.Logs.FirstIndex()
		require.NoError(t, err)
		require.Greater(t, first, uint64(1), "the log was compacted")
	})
}

// A follower that crashed inside InstallSnapshot, or that kept uncommitted entries
// of an older leader behind a snapshot, must take entries again after a restart.
func TestS131_AFollowerRecoversFromAnInterruptedInstallSnapshot(t *testing.T) {
	for name, log := range map[string]func(t *testing.T, s *Store){
		"the log ends below the snapshot":                   func(t *testing.T, s *Store) { appendEntries(t, s, 1, 12, 2) },
		"uncommitted entries of another term are behind it": func(t *testing.T, s *Store) { appendEntries(t, s, 1, 20, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, kind string) {
				s := open(t, fastDir(t), kind)
				log(t, s)
				require.NoError(t, s.Stable.SetUint64([]byte(keyTerm), 3))
				snapshotAt(t, s, 15, 3)
				for round := range uint64(2) {
					s = reopen(t, s, kind)
					m := start(t, s, time.Hour)
					index := 16 + round
					require.True(t, appendTo(t, m, index-1, entry(index, 3)), "the entry behind the snapshot is taken")
					m.stop()
					requireEntries(t, s, 16, index)
				}
			})
		})
	}
}

// appendTo sends one entry as the leader of term 3 does.
func appendTo(t *testing.T, m *raftMember, prev uint64, e *raft.Log) bool {
	t.Helper()
	addr, leader := raft.NewInmemTransport("leader")
	leader.Connect(m.trans.LocalAddr(), m.trans)
	req := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("leader"), Addr: leader.EncodePeer("leader", addr)},
		Term:      3, PrevLogEntry: prev, PrevLogTerm: 3, Entries: []*raft.Log{e},
	}
	var resp raft.AppendEntriesResponse
	require.NoError(t, leader.AppendEntries("follower", m.trans.LocalAddr(), req, &resp))
	return resp.Success
}
