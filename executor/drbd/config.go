package drbd

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-storage/holdfast/executor/run"
)

// Config says where things are on this host. The zero value of a field is its usual place.
type Config struct {
	// Dir is the directory of the resource files, /etc/drbd.d. MainFile is the file that the tools
	// read when the kernel calls them, /etc/drbd.conf: it must include Dir.
	Dir, MainFile string
	// State is where DRBD's tools record devices and sizes, /var/lib/drbd. It must survive a
	// reboot.
	State string
	// Handler is this program at its fixed path on the host's own root (S13), and Socket the node
	// process's socket that it connects to, empty for the handler's default.
	Handler, Socket string
	Options         Options
	// Hostname returns what `uname -n` prints.
	Hostname func() (string, error)
	Log      *slog.Logger

	// procDir and sysDir are /proc and /sys, runner runs the host's tools, queryMetadata is
	// queryMetadataByNetlink; tests replace them.
	procDir, sysDir string
	runner          runner
	queryMetadata   func(ctx context.Context, minor uint32) (diskMetadata, error)
}

// runner runs the host's commands.
type runner interface {
	Run(ctx context.Context, c run.Command) ([]byte, error)
	LookPath(tool string) (string, error)
}

// Options are those of DRBD that an operator may tune. The zero value of a field is its default.
type Options struct {
	// A peer is disconnected when it does not answer a ping, sent each PingInterval, within
	// PingTimeout, or a write within KoCount times WriteTimeout, which must be shorter than PingInterval.
	PingInterval time.Duration // whole seconds, 2
	PingTimeout  time.Duration // tenths of seconds, 0.5
	WriteTimeout time.Duration // tenths of seconds, 1.9
	KoCount      int           // DRBD's ko-count, 1 to 200; 1
	ConnectRetry time.Duration // whole seconds, 2
	// ResyncRate is the maximum that a resynchronisation takes of disk and network, and
	// ResyncFloor what it keeps while the volume is written to, in KiB/s; defaults 100 MiB/s, 10
	// MiB/s.
	ResyncRate, ResyncFloor int
	// Auth and Verify are digest algorithms that both hosts' kernels must have; defaults sha256,
	// crc32c.
	Auth, Verify string
}

func (o Options) withDefaults() Options {
	return Options{
		PingInterval: cmp.Or(o.PingInterval, 2*time.Second), PingTimeout: cmp.Or(o.PingTimeout, 500*time.Millisecond),
		WriteTimeout: cmp.Or(o.WriteTimeout, 1900*time.Millisecond), KoCount: cmp.Or(o.KoCount, 1), ConnectRetry: cmp.Or(o.ConnectRetry, 2*time.Second),
		ResyncRate: cmp.Or(o.ResyncRate, 100<<10), ResyncFloor: cmp.Or(o.ResyncFloor, 10<<10),
		Auth: cmp.Or(o.Auth, "sha256"), Verify: cmp.Or(o.Verify, "crc32c"),
	}
}

// HandlerPath is where the kernel finds this program, unless Config.Handler says otherwise.
const HandlerPath = "/usr/sbin/holdfast"

// withDefaults fills in what c leaves to this host's usual places.
func (c Config) withDefaults() Config {
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
	return c
}
