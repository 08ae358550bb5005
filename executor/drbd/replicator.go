package drbd

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.Replicator = (*Replicator)(nil)

// Config says where things are on this host. The zero value of each field stands
// for its usual place.
type Config struct {
	// Dir holds the resources' files, /etc/drbd.d. Main is the file that the tools
	// read when the kernel calls them, /etc/drbd.conf: it must include Dir.
	Dir, MainFile string
	// State is where DRBD's tools remember the sizes of devices, /var/lib/drbd. It
	// must outlive a reboot.
	State string
	// Handler is this program at its fixed path on the host's own root (S13), and
	// Socket where it finds the node process, empty for its own default.
	Handler, Socket string
	Options         Options
	// Hostname is what `uname -n` says.
	Hostname func() (string, error)
	Log      *slog.Logger

	// procDir and sys stand for /proc and /sys, run for the host's tools, ask for
	// queryMetadataByNetlink, in tests.
	procDir, sysDir string
	runner          runner
	queryMetadata   func(ctx context.Context, minor uint32) (diskMetadata, error)
}

// runner runs the host's commands.
type runner interface {
	Run(ctx context.Context, c run.Command) ([]byte, error)
	LookPath(tool string) (string, error)
}

// Options are DRBD's that an operator may tune. The zero value of each field stands
// for its default.
type Options struct {
	// A peer is given up when it answers no ping within PingTimeout, asked each
	// PingInterval, or no write within WriteTimeout, which must be shorter than PingInterval.
	PingInterval time.Duration // whole seconds, 2
	PingTimeout  time.Duration // tenths of seconds, 0.5
	WriteTimeout time.Duration // tenths of seconds, 1.9
	ConnectRetry time.Duration // whole seconds, 2
	// ResyncRate is the most that a resynchronisation takes of disk and network, and
	// ResyncFloor what it keeps while somebody writes, in KiB a second: 100 MiB, 10 MiB.
	ResyncRate, ResyncFloor int
	// Auth and Verify are digests that both hosts' kernels have: sha256, crc32c.
	Auth, Verify string
}

func (o Options) withDefaults() Options {
	return Options{
		PingInterval: cmp.Or(o.PingInterval, 2*time.Second), PingTimeout: cmp.Or(o.PingTimeout, 500*time.Millisecond),
		WriteTimeout: cmp.Or(o.WriteTimeout, 1900*time.Millisecond), ConnectRetry: cmp.Or(o.ConnectRetry, 2*time.Second),
		ResyncRate: cmp.Or(o.ResyncRate, 100<<10), ResyncFloor: cmp.Or(o.ResyncFloor, 10<<10),
		Auth: cmp.Or(o.Auth, "sha256"), Verify: cmp.Or(o.Verify, "crc32c"),
	}
}

// Handler is where this program lies for the kernel, unless configured otherwise.
const HandlerPath = "/usr/sbin/holdfast"

// Replicator keeps the replicated volumes of one host. It is safe for concurrent use.
type Replicator struct {
	config        Config
	resizeTimeout time.Duration

	mu            sync.Mutex
	minorOwners   map[uint32]fsm.VolumeID          // whose each minor was seen to be
	freeCounts    map[uint32]uint64                // how often each minor was seen to be nobody's
	running       map[fsm.VolumeID]struct{}        // a command of ours runs
	stuckCommands map[fsm.VolumeID]<-chan struct{} // a killed command waits in the kernel
}

// New is the replicator of this host. It touches nothing yet.
func New(c Config) *Replicator {
	c.Dir = cmp.Or(c.Dir, "/etc/drbd.d")
	c.MainFile = cmp.Or(c.MainFile, "/etc/drbd.conf")
	c.State = cmp.Or(c.State, "/var/lib/drbd")
	c.Handler = cmp.Or(c.Handler, HandlerPath)
	c.procDir, c.sysDir = cmp.Or(c.procDir, "/proc"), cmp.Or(c.sysDir, "/sys")
	c.Options = c.Options.withDefaults()
	if c.Hostname == nil {
		c.Hostname = os.Hostname
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.runner == nil {
		c.runner, c.queryMetadata = run.New(), queryMetadataByNetlink
	}
	return &Replicator{config: c, resizeTimeout: resizeTimeout, minorOwners: map[uint32]fsm.VolumeID{}, freeCounts: map[uint32]uint64{}, running: map[fsm.VolumeID]struct{}{}, stuckCommands: map[fsm.VolumeID]<-chan struct{}{}}
}
