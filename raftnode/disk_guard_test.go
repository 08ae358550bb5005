package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

const mib = 1 << 20

// TestS28_TheDiskGuard takes the guard through the stages of a disk that fills up and is cleared; each is checked twice.
func TestS28_TheDiskGuard(t *testing.T) {
	var free atomic.Int64
	free.Store(100 * mib)
	cfg := Config{Dir: t.TempDir(), DiskGuard: 16 * mib, DiskReserve: 4 * mib}
	cfg.statfs = func(string) (int64, int64, error) { return free.Load(), 1000 * mib, nil }
	resigned := 0
	d := newDiskGuard(&cfg, slog.New(slog.DiscardHandler), func() { resigned++ })
	for _, step := range []struct {
		name                           string
		free                           int64
		full, reserved, appendsRefused bool
		resigned                       int
	}{
		{"room enough", 100 * mib, false, true, false, 0},
		{"just enough", 16 * mib, false, true, false, 0},
		{"below the guard, leadership goes", 15 * mib, true, true, false, 1},
		{"a little more is not enough to come back", 17 * mib, true, true, false, 1},
		{"back, with an eighth more", 18 * mib, false, true, false, 1},
		{"full again", 5 * mib, true, true, false, 2},
		{"a quarter of the guard: the reserve is given up", 3 * mib, true, false, false, 2},
		{"still low after that", 5 * mib, true, false, false, 2},
		{"nearly nothing: appends are refused too", 1 * mib, true, false, true, 2},
		{"room for the guard, not for the reserve beside it", 19 * mib, true, false, false, 2},
		{"room for both: it comes back by itself", 22 * mib, false, true, false, 2},
	} {
		free.Store(step.free)
		for range 2 {
			d.check()
			if step.free == 3*mib {
				free.Store(5 * mib) // the deleted reserve
			}
			require.Equal(t, step.full, d.full.Load(), step.name)
			require.Equal(t, step.reserved, d.reserveExists(), step.name)
			require.Equal(t, step.appendsRefused, d.checkAppend() != nil, step.name)
			require.Equal(t, step.resigned, resigned, step.name)
		}
	}
	info, err := os.Stat(d.reservePath())
	require.NoError(t, err)
	require.EqualValues(t, 4*mib, info.Size())
	require.EqualValues(t, 0o600, info.Mode().Perm())
}

func TestS28_AMemberStartsOnAFullDisk(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), DiskGuard: 16 * mib, DiskReserve: 4 * mib}
	cfg.statfs = func(string) (int64, int64, error) { return 0, 1000 * mib, nil }
	for range 2 {
		d := newDiskGuard(&cfg, slog.New(slog.DiscardHandler), func() { t.Error("there is no leadership to give away yet") })
		require.True(t, d.full.Load())
	}
	cfg.DiskReserve = -1
	cfg.statfs = func(string) (int64, int64, error) { return 17 * mib, 1000 * mib, nil }
	d := newDiskGuard(&cfg, slog.New(slog.DiscardHandler), func() {})
	require.False(t, d.full.Load(), "without a reserve only the guard counts")
	free, total, err := statfs(cfg.Dir)
	require.NoError(t, err)
	require.Greater(t, total, free)
	_, _, err = statfs("/nowhere/at/all")
	require.Error(t, err)
}

// notDiskFull is nil for ErrDiskFull.
func notDiskFull(err error) error {
	if errors.Is(err, ErrDiskFull) {
		return nil
	}
	return fmt.Errorf("the disk is not full: %v", err)
}

// S28, S134: a leader with a full disk transfers leadership to a member that can still write.
func TestS28_ALeaderWithAFullDiskTransfersLeadership(t *testing.T) {
	t.Parallel()
	full := make(map[string]*atomic.Bool)
	c := newThreeMembers(t, func(cfg *Config) { full[cfg.Name] = withDisk(cfg) })
	fullLeader := c.leader()
	full[fullLeader.cfg.Name].Store(true)
	rest := c.others(fullLeader)
	c.leader(rest...)
	eventually(t, func() error { return notDiskFull(fullLeader.Ready()) })
	for range 2 {
		eventually(t, func() error { // while there is no leader, that is what it says
			_, err := fullLeader.Propose(testContext(t), registerNode("refused"))
			require.True(t, IsUnavailable(err), "%v", err)
			return notDiskFull(err)
		})
		eventually(t, func() error { return notDiskFull(fullLeader.Ready()) })
	}
	rest[0].mustPropose(t, "elsewhere")
	require.True(t, fullLeader.hasNode(t, "elsewhere"), "reads go on")
	full[fullLeader.cfg.Name].Store(false)
	eventually(t, fullLeader.Ready)
	fullLeader.mustPropose(t, "back")
}

// S28, S134: a leader whose disk is known to be full, as it was before it was elected or since a transfer failed, transfers
// leadership all the same.
func TestS28_AMemberWithAFullDiskDoesNotStayLeader(t *testing.T) {
	t.Parallel()
	full := make(map[string]*atomic.Bool)
	c := newThreeMembers(t, func(cfg *Config) { full[cfg.Name] = withDisk(cfg) })
	leader := c.leader()
	leader.diskGuard.full.Store(true) // before a check can notice that it becomes full
	full[leader.cfg.Name].Store(true)
	c.leader(c.others(leader)...)
	full[leader.cfg.Name].Store(false)
	eventually(t, leader.Ready)
}

// withDisk gives the member a disk that is full for as long as what it returns is true.
func withDisk(cfg *Config) *atomic.Bool {
	full := new(atomic.Bool)
	cfg.statfs = func(string) (int64, int64, error) {
		if full.Load() {
			return 900 << 10, 1 << 30, nil
		}
		return 1 << 30, 1 << 30, nil
	}
	return full
}

func TestS28_ForwardedCommandsSeeTheLeadersFullDisk(t *testing.T) {
	t.Parallel()
	var full *atomic.Bool
	c := newTestCluster(t, nil)
	leader := c.add("c1", func(cfg *Config) { full = withDisk(cfg) })
	follower := c.add("c2", nil)
	c.waitReady(2)
	eventually(t, func() error {
		require.NoError(t, follower.TransferLeadership(testContext(t)))
		if c.leader() != leader {
			return errors.New("the other one leads")
		}
		leader.diskGuard.full.Store(true) // set between two checks: leadership stays
		_, err := follower.Propose(testContext(t), registerNode("refused"))
		if err != nil && !errors.Is(err, ErrDiskFull) { // a check in between may have cleared it
			require.True(t, IsUnavailable(err), "%v", err)
			return err // this member was elected
		}
		return nil
	})
	full.Store(true)
	eventually(t, func() error {
		if _, err := leader.Propose(testContext(t), registerNode("refused")); !errors.Is(err, ErrDiskFull) {
			return errors.New("it still takes commands")
		}
		return nil
	})
}

// A leader that cannot transfer leadership ends it all the same: it opens no connection any more, and those that it has for
// replication would keep its followers.
func TestS27_ALeaderWithAWrongClockThatCannotTransferLeadershipFallsSilent(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	var skewed atomic.Pointer[testMember]
	isSkewed := func(name string) bool {
		m := skewed.Load()
		return m != nil && m.cfg.Name == name
	}
	c := newThreeMembers(t, func(cfg *Config) {
		name := cfg.Name
		cfg.now = func() time.Time {
			if isSkewed(name) {
				return time.Now().Add(time.Hour)
			}
			return time.Now()
		}
		cfg.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			if isSkewed(name) {
				return nil, errors.New("its peers' certificates are expired")
			}
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	})
	leader := c.leader()
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() { closePooled(leader, stop) })
	skewed.Store(leader)
	c.leader(c.others(leader)...)
	close(stop)
	work.Wait()
	skewed.Store(nil)
	leader.mustPropose(t, "at-the-next-leader")
}

// closePooled closes the connections that a member's raft keeps for single calls, again and again.
func closePooled(m *testMember, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
			m.transport.CloseStreams()
		}
	}
}

func TestS27_ALeaderWithAWrongClockTransfersLeadership(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	skew := make(map[string]*atomic.Int64)
	c := newThreeMembers(t, func(cfg *Config) {
		by := new(atomic.Int64)
		skew[cfg.Name] = by
		cfg.now = func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
	})
	skewedLeader := c.leader()
	skew[skewedLeader.cfg.Name].Store(int64(time.Hour))
	rest := c.others(skewedLeader)
	c.leader(rest...)
	skewedLeader.mustPropose(t, "stamped-elsewhere")
	require.NoError(t, rest[0].View(func(s *fsm.State) error {
		require.WithinDuration(t, time.Now(), s.Cluster().Time, 2*time.Hour)
		return nil
	}))
	skew[skewedLeader.cfg.Name].Store(0)
}

// What a probe found of a clock in an earlier term does not count where no probe can tell: a leader of two members, of whose clocks
// nobody knows which is right, would take no command for as long as it leads.
func TestS27_ALeaderOfTwoMembersTakesCommandsAfterItsClockWasWrong(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	by := make(map[string]*atomic.Int64)
	c := newThreeMembers(t, func(cfg *Config) {
		ahead := new(atomic.Int64)
		by[cfg.Name] = ahead
		cfg.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	wrong := c.leader()
	by[wrong.cfg.Name].Store(int64(time.Hour))
	rest := c.others(wrong)
	next := c.leader(rest...)
	by[wrong.cfg.Name].Store(0)
	rest[1-slices.Index(rest, next)].crash(t)
	next.mustPropose(t, "the-third-lacks")
	eventually(t, func() error {
		if leading, _, _ := wrong.Leadership(); leading {
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return errors.Join(next.TransferLeadership(ctx), errors.New("it does not lead yet"))
	})
	wrong.mustPropose(t, "with-two")
}
