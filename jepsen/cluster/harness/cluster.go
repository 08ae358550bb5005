package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Options say how a cluster is started.
type Options struct {
	Binary      string
	Controllers int // 3 when zero
	Nodes       int // 1 when zero
	Supervise   bool
	Flags       []string // further flags of `holdfast dev`
	Env         []string // further environment of it
	// Spawn starts the command line's processes, where the cluster is reached from elsewhere only; nil: here.
	Spawn func(*exec.Cmd) error
}

// Cluster is one developer's cluster in a directory of its own, which also holds
// the staging and target paths of the tests. Its parts are by what they do.
type Cluster struct {
	*workspace  // where it is
	*devProcess // `holdfast dev`
	*children   // its controllers and nodes as processes
	*commands   // the command line
	*clients    // CSI
	*hostView   // what is on this host
	*logs
}

func newCluster(w *workspace) *Cluster {
	c := &Cluster{workspace: w, commands: &commands{w}, clients: newClients(w), logs: &logs{w}}
	c.children = &children{workspace: w, commands: c.commands}
	c.devProcess = &devProcess{workspace: w, clients: c.clients, children: c.children}
	c.hostView = &hostView{workspace: w, children: c.children}
	return c
}

// Start starts a new cluster and returns when it has printed `ready`. After an error nothing of it is
// left.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	w, err := newWorkspace(opts)
	if err != nil {
		return nil, err
	}
	c := newCluster(w)
	if err := c.Resume(ctx); err != nil {
		return nil, errors.Join(err, c.Clean(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Prepare makes the directory of a cluster that its caller starts, in another way than by `holdfast dev`: what
// calls CSI and runs the command line finds its members in the layout that WriteLayout left.
func Prepare(opts Options) (*Cluster, error) {
	w, err := newWorkspace(opts)
	if err != nil {
		return nil, err
	}
	return newCluster(w), nil
}

// Resume starts a stopped cluster again, on the same data, and returns when it has printed `ready`.
func (c *Cluster) Resume(ctx context.Context) error {
	if err := c.Launch(); err != nil {
		return err
	}
	return c.AwaitReady(ctx)
}

// Clean stops the cluster, has `dev clean` remove all, proves that no process,
// mount or loop device is left, and removes the directory.
func (c *Cluster) Clean(ctx context.Context) error {
	stopped := c.Stop(ctx)
	killed := c.killLeftovers(ctx)
	var cleaned error
	if res := c.Run(ctx, "dev", "clean", "--dir", c.Dir); res.Code != 0 {
		cleaned = fmt.Errorf("dev clean exited %d: %s", res.Code, res.Stderr)
	}
	left := c.Leftovers(ctx)
	if err := errors.Join(stopped, killed, cleaned, left); err != nil {
		return fmt.Errorf("clean %s: %w", c.Base, err)
	}
	return os.RemoveAll(c.Base)
}
