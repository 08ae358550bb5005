// Package backuptest is a member for tests of backups: a state and its journal, without Raft.
package backuptest

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// Term is of all entries.
const Term = 7

// Member is a backup.Source. It is for one goroutine.
type Member struct {
	State   *fsm.State
	Journal *journal.Journal
	Index   uint64 // of the last entry
	Leading bool

	t *testing.T
}

// New makes a member of a new cluster.
func New(t *testing.T, cluster string) *Member {
	t.Helper()
	return NewAt(t, cluster, fsm.MaxFeatureLevel)
}

// NewAt makes a member of a new cluster at a feature level.
func NewAt(t *testing.T, cluster string, level uint32) *Member {
	t.Helper()
	m := &Member{State: fsm.New(), Leading: true, t: t}
	m.NewJournal()
	m.Apply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: cluster, IncarnationId: []byte("0123456789abcdef"), FeatureLevel: level,
	}}})
	return m
}

// NewJournal replaces the journal by an empty one, which begins after what was applied.
func (m *Member) NewJournal() {
	m.t.Helper()
	j, err := journal.Open(journal.Options{Dir: m.t.TempDir()})
	require.NoError(m.t, err)
	m.t.Cleanup(func() { require.NoError(m.t, j.Close()) })
	if m.Index > 0 {
		require.NoError(m.t, j.Restored(m.Index))
	}
	m.Journal = j
}

// Apply applies and journals a command. It passes over every third index, as entries of Raft's own do.
func (m *Member) Apply(cmd *fsmpb.Command) {
	m.t.Helper()
	m.Index++
	if m.Index%3 == 0 {
		m.Index++
	}
	cmd.RequestId, cmd.ProposedIndex, cmd.SchemaVersion = fmt.Appendf(nil, "%016d", m.Index), m.Index-1, max(m.State.Cluster().FeatureLevel, fsm.LeastLevel(cmd))
	require.Nil(m.t, m.State.Apply(m.Index, cmd).Outcome.GetRejection())
	data, err := proto.Marshal(cmd)
	require.NoError(m.t, err)
	require.NoError(m.t, m.Journal.Append(journal.Entry{Index: m.Index, Term: Term, Command: data}))
}

// Nodes registers the nodes of these numbers.
func (m *Member) Nodes(from, to int) *Member {
	m.t.Helper()
	for i := from; i < to; i++ {
		name := fmt.Sprintf("n%d", i)
		m.Apply(&fsmpb.Command{Actor: "node/" + name, Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
			NodeId: name, HostId: "host-" + name, BootId: "boot", FeatureLevel: fsm.MaxFeatureLevel,
			Pools: []*fsmpb.Pool{{PoolId: "pool-" + name, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 2000}},
		}}})
	}
	return m
}

// Read reads the state.
func (m *Member) Read(_ context.Context, fn func(*fsm.State) error) (uint64, error) {
	return m.State.Cluster().Index, fn(m.State)
}

// Fork copies the state.
func (m *Member) Fork() *fsm.State { return m.State.Fork() }

// CopyState copies the state.
func (m *Member) CopyState() (*fsm.State, uint64) { return m.State.Fork(), Term }

// WaitIndex returns at once: what is applied is journalled.
func (m *Member) WaitIndex(context.Context, uint64) error { return nil }

// JournalEntries reads the journal.
func (m *Member) JournalEntries(from, to uint64, fn func(journal.Entry) bool) (uint64, error) {
	err := m.Journal.Range(from, to, fn)
	return m.Journal.First(), err
}

// Leadership is as Leading says.
func (m *Member) Leadership() (leading bool, term uint64, changed <-chan struct{}) {
	return m.Leading, Term, nil
}
