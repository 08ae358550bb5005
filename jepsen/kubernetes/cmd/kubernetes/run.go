package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/stories"
	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

// all starts a cluster, tells the stories and removes the cluster, also when it is interrupted. What a run before left is removed first.
// The parts are processes of their own, because they run in the cluster's network.
func (o options) all(ctx context.Context) error {
	if err := o.down(); err != nil {
		return err
	}
	failed := again(ctx, "up")
	if failed == nil {
		failed = again(ctx, "stories")
	}
	return errors.Join(failed, o.down())
}

// again runs this program with the same flags and another verb.
func again(ctx context.Context, verb string) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{verb}, os.Args[2:]...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// stories tells the stories on the cluster that runs.
func (o options) stories(ctx context.Context) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	c := o.cluster()
	if err := c.Enter(); err != nil {
		return err
	}
	if c.Archives, err = o.makeImages(); err != nil { // for nodes that join
		return fmt.Errorf("make the images: %w", err)
	}
	k, err := kit.New(c)
	if err != nil {
		return err
	}
	settings, err := o.settings()
	if err != nil {
		return err
	}
	page := filepath.Join(settings.Reports, o.page())
	say("the table of stories is in %s", page)
	return story.Run(ctx, k, settings, stories.All(), only, func(results []story.Result) error {
		return story.Write(page, "Holdfast on Kubernetes "+c.Version, results)
	})
}

// page is the name of the table's file: clusters with guests have other stories.
func (o options) page() string {
	switch {
	case o.thinPools:
		return "STORIES-THIN-POOLS-" + o.version + ".md"
	case o.guests > 0:
		return "STORIES-REPLICATED-" + o.version + ".md"
	}
	return "STORIES-" + o.version + ".md"
}

func (o options) settings() (story.Settings, error) {
	reports := filepath.Join(o.dir, "reports")
	if err := os.MkdirAll(reports, 0o755); err != nil {
		return story.Settings{}, err
	}
	return story.Settings{
		Chart: o.chart, Helm: o.helm, Tag: o.tag(), Holdfast: o.holdfast, Minutes: o.minutes, OnHosts: o.onHosts, ThinPools: o.thinPools, Reports: reports,
		SuiteFocus: o.suiteFocus, Say: say,
	}, nil
}

// tag is that of the image, which its build writes beside the archive.
func (o options) tag() string {
	name, err := os.ReadFile(filepath.Join(filepath.Dir(o.image), "name"))
	if err != nil {
		return "missing"
	}
	_, tag, _ := strings.Cut(strings.TrimSpace(string(name)), ":")
	return tag
}
