package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/cluster"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
)

// cluster is the cluster that the flags describe, without images for new nodes.
func (o options) cluster() cluster.Config {
	return cluster.Config{Dir: filepath.Join(o.dir, "cluster"), Programs: o.programs, Version: o.version, Nodes: o.nodes, Guests: o.guests, PoolSize: o.pool, Late: lateNodes, LatePool: latePool}
}

// up starts what does not run yet of the cluster. It executes this program again in the cluster's network, where it goes on.
func (o options) up(ctx context.Context) error {
	c := o.cluster()
	archives, err := o.makeImages()
	if err != nil {
		return fmt.Errorf("make the images: %w", err)
	}
	c.Archives = archives
	if _, err := c.ControlPlane().PID(); err != nil {
		say("starting the control plane of %s", c.Version)
		if err := c.StartControlPlane(ctx); err != nil {
			return err
		}
	}
	if err := c.Enter(); err != nil {
		return err
	}
	if err := c.WaitServing(ctx, 5*time.Minute); err != nil {
		return fmt.Errorf("wait for the API server: %w", err)
	}
	if err := o.serveSnapshots(ctx, c); err != nil {
		return fmt.Errorf("serve snapshots: %w", err)
	}
	return startNodes(ctx, c)
}

// serveSnapshots makes the CRDs of snapshots and runs their controller, which are the cluster's and no chart's.
func (o options) serveSnapshots(ctx context.Context, c cluster.Config) error {
	if o.crds == "" {
		return nil
	}
	if _, err := o.kubectl(ctx, c, "apply", "--server-side", "-k", o.crds); err != nil {
		return err
	}
	return c.RunSnapshotController()
}

func (o options) kubectl(ctx context.Context, c cluster.Config, args ...string) (string, error) {
	k, err := kit.New(c)
	if err != nil {
		return "", err
	}
	return k.Kubectl(ctx, args...)
}

// lateNodes join in stories, with disks so small that a story can fill them.
const lateNodes, latePool = 2, 4 << 30

func startNodes(ctx context.Context, c cluster.Config) error {
	for n := 1; n <= c.Started(); n++ {
		if _, err := c.Node(n).PID(); err == nil {
			continue
		}
		say("starting the node %s", cluster.NodeName(n))
		if err := c.StartNode(ctx, n); err != nil {
			return err
		}
	}
	if err := c.WaitNodes(ctx, 5*time.Minute); err != nil {
		return fmt.Errorf("wait for the nodes: %w", err)
	}
	say("all nodes are ready")
	return nil
}

func (o options) down() error {
	return errors.Join(machine.RemoveAll(filepath.Join(o.dir, "cluster")), os.RemoveAll(filepath.Join(o.dir, "cluster")))
}

func (o options) shell(ctx context.Context, args []string) error {
	c := o.cluster()
	if err := c.Enter(); err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"bash"}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig("admin"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

func say(format string, args ...any) {
	fmt.Printf(time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
