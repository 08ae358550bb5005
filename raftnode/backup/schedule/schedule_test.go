package schedule

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/backuptest"
	"github.com/holdfast-storage/holdfast/raftnode/backup/target"
)

// clock is the time, which only tests move.
type clock struct{ now time.Time }

func (c *clock) add(d time.Duration) { c.now = c.now.Add(d) }

// broken is a target that fails while broken.
type broken struct {
	target.Target
	broken bool
}

func (b *broken) Put(ctx context.Context, name string, fill func(io.Writer) error) error {
	if b.broken {
		return errors.New("the disk is full")
	}
	return b.Target.Put(ctx, name, fill)
}

func newScheduler(t *testing.T, m *backuptest.Member, to target.Target, c *clock) *Scheduler {
	t.Helper()
	s, err := New(Options{
		Member: m, Target: to, Name: "c1", Interval: time.Hour, Increments: time.Minute, Keep: 2,
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: func() time.Time { return c.now },
	})
	require.NoError(t, err)
	return s
}

func names(t *testing.T, to target.Target) (full, increments []target.Name) {
	t.Helper()
	all, err := to.Names(t.Context())
	require.NoError(t, err)
	slices.Sort(all)
	for _, text := range all {
		n, ok := target.ParseName(text)
		require.True(t, ok, text)
		if n.Kind == backup.Full {
			full = append(full, n)
		} else {
			increments = append(increments, n)
		}
	}
	return full, increments
}

// requireReaches loads everything that is kept for the last full backup.
func requireReaches(t *testing.T, dir string, m *backuptest.Member) {
	t.Helper()
	full, increments := names(t, target.Folder(dir))
	f := backup.Files{Full: dir + "/" + full[len(full)-1].String()}
	for _, n := range increments {
		f.Increments = append(f.Increments, dir+"/"+n.String())
	}
	c, err := backup.Load(f)
	require.NoError(t, err)
	require.Equal(t, m.State.Hash(), c.State.Hash())
}

func TestASchedule(t *testing.T) {
	dir := t.TempDir()
	m, c := backuptest.New(t, "one").Nodes(0, 3), &clock{now: time.Unix(1_000_000, 0)}
	s := newScheduler(t, m, target.Folder(dir), c)
	twice := func() {
		t.Helper()
		for range 2 {
			require.NoError(t, s.Once(t.Context()))
		}
	}
	expect := func(fulls, increments int) {
		t.Helper()
		f, i := names(t, target.Folder(dir))
		require.Len(t, f, fulls)
		require.Len(t, i, increments)
		requireReaches(t, dir, m)
	}
	twice()
	expect(1, 0)
	c.add(time.Minute)
	twice()
	expect(1, 0) // nothing has happened
	require.EqualValues(t, c.now.Unix(), testutil.ToFloat64(s.lastSuccess))
	m.Nodes(3, 5)
	twice()
	expect(1, 1)
	require.EqualValues(t, m.Index, testutil.ToFloat64(s.lastIndex))

	s = newScheduler(t, m, target.Folder(dir), c) // another leader goes on
	m.Nodes(5, 6)
	c.add(time.Minute)
	twice()
	expect(1, 2)
	for i := range 3 { // the oldest go, with their increments
		c.add(time.Hour)
		m.Nodes(10*(i+1), 10*(i+1)+1)
		twice()
		c.add(time.Minute)
		m.Nodes(10*(i+1)+1, 10*(i+1)+2)
		twice()
	}
	expect(2, 2)

	c.add(time.Minute)
	m.NewJournal() // it joined by a Raft snapshot
	m.Nodes(50, 51)
	m.NewJournal()
	m.Nodes(51, 52)
	twice()
	f, _ := names(t, target.Folder(dir))
	require.Equal(t, m.Index, f[len(f)-1].Index, "a full one, as the journal does not reach back")

	former := len(f)
	m.Apply(&fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: []byte("fedcba9876543210")}}})
	for i := range 4 {
		c.add(time.Hour)
		m.Nodes(60+i, 61+i)
		twice()
	}
	f, _ = names(t, target.Folder(dir))
	require.Len(t, f, former+2, "those of the former incarnation stay")
	requireReachesAfterRestore(t, dir, m)
}

func requireReachesAfterRestore(t *testing.T, dir string, m *backuptest.Member) {
	t.Helper()
	full, _ := names(t, target.Folder(dir))
	c, err := backup.Load(backup.Files{Full: dir + "/" + full[len(full)-1].String()})
	require.NoError(t, err)
	require.Equal(t, m.State.Hash(), c.State.Hash())
}

func TestOnlyTheLeaderWritesAndFailuresAreCounted(t *testing.T) {
	dir := t.TempDir()
	to := &broken{Target: target.Folder(dir), broken: true}
	m, c := backuptest.New(t, "one"), &clock{now: time.Unix(1_000_000, 0)}
	s := newScheduler(t, m, to, c)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	m.Leading = false
	require.NoError(t, s.Run(ended)) // it looks once, and ends
	require.Zero(t, testutil.ToFloat64(s.failures))
	m.Leading = true
	s.Member = &backuptest.Member{State: fsm.New(), Leading: true} // whose cluster is not made yet
	s.attempt(t.Context())
	require.Zero(t, testutil.ToFloat64(s.failures))
	require.Equal(t, time.Second, s.pause())
	s.Member = m
	for i := range 2 {
		s.attempt(t.Context())
		require.EqualValues(t, i+1, testutil.ToFloat64(s.failures))
		full, _ := names(t, to)
		require.Empty(t, full)
	}
	require.Equal(t, 4*time.Second, s.pause(), "it is tried again ever later")
	to.broken = false
	s.attempt(t.Context())
	require.Equal(t, 12*time.Second, s.pause())
	requireReaches(t, dir, m)
	require.EqualValues(t, 2, testutil.ToFloat64(s.failures))
}

// restoredMeanwhile gets another incarnation between the look at what is due and the backup.
type restoredMeanwhile struct {
	*backuptest.Member
	restore func()
}

func (r *restoredMeanwhile) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	if r.restore != nil {
		r.restore()
		r.restore = nil
	}
	return r.Member.Read(ctx, fn)
}

func TestAnIncarnationThatIsReplacedMeanwhile(t *testing.T) {
	for name, pause := range map[string]time.Duration{"an increment is due": time.Minute, "a full one is due": time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m, c := backuptest.New(t, "one").Nodes(0, 3), &clock{now: time.Unix(1_000_000, 0)}
			s := newScheduler(t, m, target.Folder(dir), c)
			for i := range 2 { // as many as are kept
				require.NoError(t, s.Once(t.Context()))
				m.Nodes(10+i, 11+i)
				c.add(time.Hour)
			}
			former, _ := names(t, target.Folder(dir))
			require.Len(t, former, 2)
			c.add(pause - time.Hour)
			s.Member = &restoredMeanwhile{m, func() {
				m.Apply(&fsmpb.Command{Actor: "admin/ann", Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: []byte("fedcba9876543210")}}})
			}}
			for range 2 {
				require.NoError(t, s.Once(t.Context()))
				full, increments := names(t, target.Folder(dir))
				require.Empty(t, increments, "none continues another life")
				require.Len(t, full, 3)
				require.Equal(t, former, full[:2], "those of the former incarnation stay")
				require.EqualValues(t, 2, full[2].Incarnation)
			}
		})
	}
}
