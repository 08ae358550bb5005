package hostcheck

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// probeBudget bounds the time that the disk is measured.
const probeBudget = 2 * time.Second

// Config says what a host is looked at for.
type Config struct {
	Role    Role
	Version string // of this build
	DataDir string
	// LockFile is what the running process has locked: a file below the data folder, or "" for the folder.
	LockFile string
	// Identity reads the identity in the data folder and changes nothing; "" is a folder without one.
	Identity  func(dir string) (string, error)
	Folders   []string    // further folders whose space is looked at: pools of files
	ThinPools [][2]string // volume group and pool
	Cert      string
	Key       string
	CA        string
	Endpoints []string // addresses that are dialled: controllers
	// Listen has the addresses that the process is to listen on, and ReplicationAddress the one that replicas are to. Either may be empty.
	Listen             []string
	ReplicationAddress string
	Wants              Wants
	// Writes is how many durable writes measure the disk; 0 means 200.
	Writes int
}

// System is the machine, whose parts tests replace.
type System struct {
	Root     string // "/"
	LookPath func(tool string) (string, error)
	// Run returns what the command printed, RunBoth with what it printed to stderr.
	Run     func(ctx context.Context, tool string, args ...string) (string, error)
	RunBoth func(ctx context.Context, tool string, args ...string) (string, error)
	Adjtime func() (Clock, error)
	Statfs  func(path string) (unix.Statfs_t, error)
	Dial    func(ctx context.Context, address string) error
	Now     func() time.Time
	UID     func() int
}

// Gatherer gathers facts.
type Gatherer struct {
	Config
	System
}

// Gather looks at everything once. Parts that wait, for commands, dials and the disk, run side by side. It
// does not fail: what could not be found out is said in the facts.
func (g *Gatherer) Gather(ctx context.Context) *Facts {
	f := &Facts{Role: g.Role, Version: g.Version, At: g.Now().UTC(), UID: g.UID(), Wants: g.Wants}
	f.Hostname = g.word("proc/sys/kernel/hostname")
	f.Kernel = g.word("proc/sys/kernel/osrelease")
	var wg sync.WaitGroup
	wg.Go(func() { f.Disk, f.PoolDisks = g.latency(), g.poolDisks() }) // one after the other: they may share a disk
	wg.Go(func() { f.Ports = g.wantedPorts() })
	wg.Go(func() { f.Reached = g.reach(ctx) })
	wg.Go(func() { f.Certs = g.certs() })
	wg.Go(func() {
		f.Modules, f.Tools = g.modules(f.Kernel), g.tools(ctx)
		if g.Role == Node {
			f.LVM, f.ThinPools = g.lvm(ctx), g.thinPools(ctx)
		}
	})
	f.Spaces = g.spaces()
	f.DataDir = g.dataDir()
	f.Limits = g.limits(f.DataDir)
	f.Clock = g.clock()
	if g.Role == Node {
		f.Namespaces, f.SignedOnly = g.namespaces(), g.signedOnly()
		f.Udev, f.Multipath, f.DRBD, f.Cgroup = g.udev(), g.multipath(), g.drbd(), g.cgroup()
	}
	wg.Wait()
	return f
}

func (g *Gatherer) path(name string) string { return filepath.Join(g.Root, name) }

func (g *Gatherer) exists(name string) bool {
	_, err := os.Stat(g.path(name))
	return err == nil
}

// text is a file's content, empty where it cannot be read.
func (g *Gatherer) text(name string) string {
	content, err := os.ReadFile(g.path(name))
	if err != nil {
		return ""
	}
	return string(content)
}

func (g *Gatherer) word(name string) string { return strings.TrimSpace(g.text(name)) }
