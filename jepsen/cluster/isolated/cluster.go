package isolated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/netns"
)

// Options say how a cluster is started.
type Options struct {
	Binary                   string
	Controllers, Nodes       int      // 3 and 2 when zero
	ControllerDisk, NodeDisk int64    // bytes; 192 MiB and 512 MiB when zero
	ControllerArgs, NodeArgs []string // further flags, after those of defaults.go
	LogStore                 string   // wal when empty
	Env                      []string // further environment of the members
	Mount                    MountFunc
	PoolsOfOld               bool // nodes may be of a build that knows no --pool-image
	Unsupervised             bool
}

// MountFunc puts another filesystem, of which `below` is the content, at the empty directory `at`, in which the member then
// works. It is called once before the member's first start. The result ends it, once the member's process has ended; nil
// means that this member works in `below` itself.
type MountFunc func(ctx context.Context, member, below, at string) (unmount func() error, err error)

// Cluster is a cluster whose members are isolated from each other. Its methods may be called concurrently.
type Cluster struct {
	opts Options
	net  *netns.Network
	view *harness.Cluster

	mu        sync.Mutex
	members   []*Member // controllers first
	founded   bool      // from now on nobody bootstraps
	supervise bool
	closed    bool         // its directory is gone
	made      map[role]int // members, also those that were removed
}

// WhyUnavailable says why a cluster cannot run here, empty when it can.
func WhyUnavailable() string { return cmp.Or(harness.WhyUnavailable(), netns.WhyUnavailable()) }

// Start starts a cluster and returns when every member serves. After an error nothing of it is left.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	opts.Controllers, opts.Nodes = cmp.Or(opts.Controllers, 3), cmp.Or(opts.Nodes, 2)
	opts.ControllerDisk, opts.NodeDisk = cmp.Or(opts.ControllerDisk, 192<<20), cmp.Or(opts.NodeDisk, 512<<20)
	if err := Sweep(ctx); err != nil {
		return nil, fmt.Errorf("remove what dead runs left: %w", err)
	}
	c := &Cluster{opts: opts, made: map[role]int{}}
	if err := c.make(ctx); err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	if err := c.found(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, c.view.Logs(15)), c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// make makes everything that is there before a process runs.
func (c *Cluster) make(ctx context.Context) (err error) {
	if c.net, err = netns.New(ctx); err != nil {
		return err
	}
	c.view, err = harness.Prepare(harness.Options{Binary: c.opts.Binary, Spawn: c.net.Start})
	if err != nil {
		return err
	}
	if err := errors.Join(own(c.view.Base), c.makeDirs(), c.makeCA(ctx)); err != nil {
		return err
	}
	for range c.opts.Controllers {
		if _, err := c.addMember(ctx, controllerRole); err != nil {
			return err
		}
	}
	for range c.opts.Nodes {
		if _, err := c.addMember(ctx, nodeRole); err != nil {
			return err
		}
	}
	return c.writeLayout()
}

func (c *Cluster) makeDirs() error {
	var errs []error
	for _, dir := range []string{c.view.Dir, c.dir("log"), c.dir("sock"), filepath.Join(c.view.Base, "disk"), filepath.Join(c.view.Base, "below"), filepath.Join(c.view.Base, "at")} {
		errs = append(errs, os.MkdirAll(dir, 0o700))
	}
	return errors.Join(errs...)
}

// dir is a path in the directory that the command line knows the cluster by.
func (c *Cluster) dir(parts ...string) string {
	return filepath.Join(append([]string{c.view.Dir}, parts...)...)
}

// found starts all members for the first time.
func (c *Cluster) found(ctx context.Context) error {
	for _, m := range c.Members() {
		if err := m.Start(ctx); err != nil {
			return err
		}
	}
	if err := c.AwaitServing(ctx); err != nil {
		return err
	}
	if err := c.AwaitVoting(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.founded = true
	c.mu.Unlock()
	c.Supervise(!c.opts.Unsupervised)
	return nil
}

// View is the cluster for who calls it and looks at it.
func (c *Cluster) View() *harness.Cluster { return c.view }

// Net is the network that the members are in.
func (c *Cluster) Net() *netns.Network { return c.net }

// Members are all members, the controllers first.
func (c *Cluster) Members() []*Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

// Controllers are the controllers.
func (c *Cluster) Controllers() []*Member { return c.withRole(controllerRole) }

// Nodes are the nodes.
func (c *Cluster) Nodes() []*Member { return c.withRole(nodeRole) }

func (c *Cluster) withRole(r role) []*Member {
	return slices.DeleteFunc(c.Members(), func(m *Member) bool { return m.role != r })
}

// Member is a member by its id, nil when there is none.
func (c *Cluster) Member(id string) *Member {
	all := c.Members()
	if i := slices.IndexFunc(all, func(m *Member) bool { return m.ID == id }); i >= 0 {
		return all[i]
	}
	return nil
}

// CLI runs the command line against the cluster, from where all members are reached.
func (c *Cluster) CLI(ctx context.Context, args ...string) harness.Result {
	return c.view.Run(ctx, append(args, "--dir", c.view.Dir)...)
}

// Hosts are the hosts of members in the network.
func Hosts(members []*Member) (hosts []*netns.Host) {
	for _, m := range members {
		hosts = append(hosts, m.host)
	}
	return hosts
}
