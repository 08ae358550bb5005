//go:build bench

package bench

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const restartVolumes = 100_000

// BenchmarkRestart starts one member with 100,000 volumes: from that many log entries, then from a Raft
// snapshot of the same state.
func BenchmarkRestart(b *testing.B) {
	for range b.N {
		m := lonely{dir: b.TempDir(), ca: b.TempDir()}
		m.issue(b)
		m.fill(b)
		replay := m.restart(b, 1<<40)
		m.snapshot(b)
		restored := m.restart(b, 1<<40)
		b.ReportMetric(restored.Seconds()/replay.Seconds(), "xReplay")
		b.ReportMetric(replay.Seconds(), "replay-s")
		b.ReportMetric(restored.Seconds(), "snapshot-s")
	}
}

// lonely is a cluster of one member in this process.
type lonely struct {
	dir, ca string
	creds   *pki.Credentials
}

func (l *lonely) issue(b *testing.B) {
	b.Helper()
	require.NoError(b, pki.MakeCA(l.ca+"/ca", "bench"))
	files, err := pki.Issue(l.ca+"/ca", l.ca+"/c1", pki.Identity{Cluster: "bench", Role: pki.Controller, Name: "c1"}, time.Hour)
	require.NoError(b, err)
	l.creds, err = pki.Load(files)
	require.NoError(b, err)
}

// open starts the member; threshold is the number of entries after which a Raft snapshot is taken.
func (l *lonely) open(b *testing.B, threshold uint64) *raftnode.Member {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	m, err := raftnode.Open(b.Context(), raftnode.Config{
		Dir: l.dir + "/data", Name: "c1", Listener: listener, Advertise: "127.0.0.1:1", Credentials: l.creds, Bootstrap: true,
		SnapshotThreshold: threshold, TrailingLogs: 2 * threshold, SnapshotInterval: 200 * time.Millisecond, DiskReserve: -1,
	})
	require.NoError(b, err)
	return m
}

// fill creates the volumes, many concurrently.
func (l *lonely) fill(b *testing.B) {
	b.Helper()
	m := l.open(b, 1<<40)
	register := newCommand("node/" + benchHost)
	register.Body = hostRegistration()
	require.Eventually(b, func() bool { _, err := m.Propose(b.Context(), register); return err == nil }, 20*time.Second, 20*time.Millisecond)
	var left atomic.Int64
	left.Store(restartVolumes)
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := m.Propose(b.Context(), createVolume()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(b, m.Close())
}

// restart measures from opening the directory until this member holds all volumes.
func (l *lonely) restart(b *testing.B, threshold uint64) time.Duration {
	b.Helper()
	began := time.Now()
	m := l.open(b, threshold)
	opened := time.Since(began)
	deadline := began.Add(2 * time.Minute)
	for used := 0; used < restartVolumes; time.Sleep(time.Millisecond) {
		require.True(b, time.Now().Before(deadline), "the volumes did not come back within two minutes")
		require.NoError(b, m.View(func(s *fsm.State) error { _, used = s.PoolUse("pool-of-bench"); return nil }))
	}
	took := time.Since(began)
	_, err := m.Read(b.Context(), func(*fsm.State) error { return nil })
	b.Logf("opened after %v, all volumes after %v, first read after %v: %v", opened, took, time.Since(began), err)
	require.NoError(b, m.Close())
	return took
}

// snapshot takes a Raft snapshot of everything, so that the log is short.
func (l *lonely) snapshot(b *testing.B) {
	b.Helper()
	m := l.open(b, 500)
	deadline := time.Now().Add(time.Minute)
	for !withSnapshot(l.dir+"/data", restartVolumes) {
		require.True(b, time.Now().Before(deadline), "no snapshot was made within a minute")
		time.Sleep(50 * time.Millisecond)
	}
	require.NoError(b, m.Close())
}
