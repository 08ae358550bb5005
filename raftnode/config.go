package raftnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// Config is what a member needs. Zero durations and sizes mean the documented defaults.
type Config struct {
	Dir      string // the data folder, 0700
	Name     string // the controller's name, as in cluster.json
	LogStore string // "wal" or "boltdb"
	Version  string
	APIAddr  string // reported to peers and in the status
	Site     string // that the member acts for, reported in the status
	Zone     string // that the member runs in, reported in the status; empty: it is not known
	// EnrollAddr is the address of the controller's enrolment listener, reported in the status; empty: it has none.
	EnrollAddr string

	Listener    net.Listener // of Raft; TCP. The member closes it
	Advertise   string       // the address that peers dial; the listener's when empty
	Credentials *pki.Credentials

	// Bootstrap bootstraps a cluster when the data directory is empty: at once without Join;
	// with Join when all those addresses know no cluster, and else the member joins (S69).
	Bootstrap bool
	Join      []string // Raft addresses of members to join through when the folder is empty
	// BootstrapMarker is a file outside of Dir that records that a cluster was bootstrapped
	// from Dir; Dir with the ending ".founded" when empty.
	BootstrapMarker string
	// NoBootstrapMarker: who decided about Bootstrap remembers it outside of Dir, and there is no marker.
	NoBootstrapMarker bool

	// Facts attaches what was measured to a command, on the leader, before it is
	// appended (S25). It replaces facts that are there already. It must not block.
	Facts func(*fsmpb.Command)
	// Services registers further controller-to-controller services on the Raft listener.
	Services func(grpc.ServiceRegistrar)

	HeartbeatTimeout, ElectionTimeout, LeaseTimeout time.Duration // 500 ms each
	SnapshotThreshold, TrailingLogs                 uint64        // 8192, 2x the threshold, which is the least
	SnapshotInterval                                time.Duration // 30 s: how often the threshold is checked
	CheckpointEvery                                 uint64        // 256 entries (S23)
	DiskHang                                        time.Duration // 5 s: an I/O outstanding for longer ends the process
	SegmentSize                                     int           // bytes of a wal segment; 64 MiB
	// DiskReserve is the size in bytes of a file that is deleted when the disk is full; 64 MiB
	// by default, none when negative. DiskGuard is how many bytes must be free; by default a
	// tenth of the disk, at most 256 MiB.
	DiskReserve, DiskGuard int64
	JournalRetain          int64 // bytes of journal kept; 1 GiB

	Logger  *slog.Logger
	Metrics prometheus.Registerer
	// Exit ends the process with a code; os.Exit by default. Tests replace it.
	Exit func(code int)

	defaultMarker bool // BootstrapMarker was not given

	// Simulated replaces parts of the machine; zero in every process that serves.
	Simulated Machine

	// What tests replace.
	bootstrapLevel  uint32 // of a new cluster
	openStorage     func(store.Options) (*storage, error)
	apply           applyFunc
	statfs          func(dir string) (free, total int64, err error)
	maxFeatureLevel uint32 // the highest feature level that this build says it understands
	now             func() time.Time
	raftRPCTimeout  time.Duration
	dial            func(ctx context.Context, addr string) (net.Conn, error)
}

// Machine is what a member runs on, where a simulation replaces it. What is nil is the real machine's.
type Machine struct {
	// Dial opens a connection to a member's Raft address.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Disk makes the store's files durable, or fails to.
	Disk store.Disk
	// StatFS tells how many bytes of a disk are free, and how many it has.
	StatFS func(dir string) (free, total int64, err error)
	// Repeat tells whether a message of Raft that arrived arrives again, and after how long. Messages
	// wait in the sockets of connections that were given up, so that raft has to bear it.
	Repeat func() (again bool, after time.Duration)
}

// withDefaults fills what is zero and refuses what is invalid.
func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" || c.Listener == nil || c.Credentials == nil {
		return c, errors.New("a member needs a data folder, a listener and credentials")
	}
	c.Name = cmp.Or(c.Name, c.Credentials.Identity().Name)
	c.LogStore = cmp.Or(c.LogStore, store.WAL)
	c.Advertise = cmp.Or(c.Advertise, c.Listener.Addr().String())
	c.defaultMarker = c.BootstrapMarker == ""
	c.BootstrapMarker = cmp.Or(c.BootstrapMarker, filepath.Clean(c.Dir)+".founded")
	c.defaultTimeouts()
	c.SnapshotThreshold = cmp.Or(c.SnapshotThreshold, 8192)
	c.TrailingLogs = cmp.Or(c.TrailingLogs, 2*c.SnapshotThreshold)
	if c.TrailingLogs < 2*c.SnapshotThreshold {
		return c, fmt.Errorf("%d trailing logs are less than twice the snapshot threshold of %d", c.TrailingLogs, c.SnapshotThreshold)
	}
	c.useMachine()
	c.CheckpointEvery = cmp.Or(c.CheckpointEvery, 256)
	c.DiskReserve = cmp.Or(c.DiskReserve, 64<<20)
	c.JournalRetain = cmp.Or(c.JournalRetain, 1<<30)
	c.defaultHooks()
	return c, nil
}

func (c *Config) defaultTimeouts() {
	c.HeartbeatTimeout = cmp.Or(c.HeartbeatTimeout, 500*time.Millisecond)
	c.ElectionTimeout = cmp.Or(c.ElectionTimeout, c.HeartbeatTimeout)
	c.LeaseTimeout = cmp.Or(c.LeaseTimeout, c.HeartbeatTimeout)
	c.SnapshotInterval = cmp.Or(c.SnapshotInterval, 30*time.Second)
	c.DiskHang = cmp.Or(c.DiskHang, 5*time.Second)
}

func (c *Config) useMachine() {
	if c.Simulated.Dial != nil {
		c.dial = c.Simulated.Dial
	}
	if c.Simulated.StatFS != nil {
		c.statfs = c.Simulated.StatFS
	}
}

func (c *Config) defaultHooks() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Exit == nil {
		c.Exit = os.Exit
	}
	if c.openStorage == nil {
		c.openStorage = openStorage
	}
	if c.apply == nil {
		c.apply = applyCommand
	}
	if c.statfs == nil {
		c.statfs = statfs
	}
	c.maxFeatureLevel = cmp.Or(c.maxFeatureLevel, fsm.MaxFeatureLevel)
	c.bootstrapLevel = cmp.Or(c.bootstrapLevel, c.maxFeatureLevel)
	c.raftRPCTimeout = cmp.Or(c.raftRPCTimeout, raftRPCTimeout)
	if c.now == nil {
		c.now = time.Now
	}
	if c.dial == nil {
		c.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
}

// leaderlessTimeout is how long a caller waits while nobody can answer: two elections
// after the leader was last heard (S28). It is 2 s by default.
func (c *Config) leaderlessTimeout() time.Duration {
	return 2 * (c.HeartbeatTimeout + c.ElectionTimeout)
}

// probeInterval is how often the leader probes its members, and itself; 1 s by default.
func (c *Config) probeInterval() time.Duration { return 2 * c.HeartbeatTimeout }

func (c *Config) journalDir() string { return filepath.Join(c.Dir, "journal") }
