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
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/image"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
)

func (o options) cluster() (cluster.Config, error) {
	programs, err := filepath.Abs(o.programs)
	if err != nil {
		return cluster.Config{}, err
	}
	archives, err := filepath.Glob(filepath.Join(o.dir, "images", "*.tar"))
	return cluster.Config{
		Dir: filepath.Join(o.dir, "cluster"), Programs: programs, Version: o.version, Nodes: o.nodes, PoolSize: o.pool, Archives: archives,
	}, err
}

// up starts what does not run yet of the cluster. It executes this program again in the cluster's network, where it goes on.
func (o options) up(ctx context.Context) error {
	if err := o.makeImages(); err != nil {
		return err
	}
	c, err := o.cluster()
	if err != nil {
		return err
	}
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
	return startNodes(ctx, c)
}

func startNodes(ctx context.Context, c cluster.Config) error {
	for n := 1; n <= c.Nodes; n++ {
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
	c, err := o.cluster()
	if err != nil {
		return err
	}
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

// makeImages writes the archives of the images of which the programs are there.
func (o options) makeImages() error {
	dir := filepath.Join(o.dir, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	small, err := image.BusyboxOf(busybox)
	if err != nil {
		return err
	}
	return errors.Join(
		image.Write(filepath.Join(dir, "pause.tar"), image.Pause(cluster.PauseImage, filepath.Join(o.programs, "pause"))),
		image.Write(filepath.Join(dir, "busybox.tar"), small),
	)
}

func say(format string, args ...any) {
	fmt.Printf(time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
