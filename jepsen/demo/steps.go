package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// burstSize is how many volumes the burst creates, with burstWorkers at a time.
const burstSize, burstWorkers = 60, 8

func (s *demo) start(ctx context.Context) (err error) {
	if s.cluster, err = harness.Start(ctx, harness.Options{Binary: s.binary, Supervise: true}); err != nil {
		return err
	}
	s.co = s.cluster.NewCO()
	l, err := s.cluster.Layout()
	if err != nil {
		return err
	}
	leader, err := s.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	for _, c := range l.Controllers {
		role := "follows"
		if c.ID == leader {
			role = "leads"
		}
		s.printStepf("controller %s, process %d, %s; CSI on %s", c.ID, c.PID, role, c.Endpoint)
	}
	for _, n := range l.Nodes {
		s.printStepf("node %s, process %d, pool %s", n.ID, n.PID, n.PoolDir)
	}
	return nil
}

// volumeSpecs are the volumes that the demo uses.
var volumeSpecs = []harness.Spec{
	{Name: "documents", Size: 64 * harness.Mi, FSType: "ext4"},
	{Name: "archive", Size: 320 * harness.Mi, FSType: "xfs"},
	{Name: "database", Size: 32 * harness.Mi, Block: true},
}

func (s *demo) create(ctx context.Context) error {
	l, err := s.cluster.Layout()
	if err != nil {
		return err
	}
	for i, spec := range volumeSpecs {
		at := l.Controllers[i%len(l.Controllers)].ID
		co := s.cluster.NewCO()
		co.Controllers = []string{at}
		begin := time.Now()
		v, err := co.Create(ctx, spec)
		if err != nil {
			return err
		}
		s.volumes[v.Name] = v
		s.staged = append(s.staged, &mountedVolume{Volume: v})
		s.printStepf("%-10s at %s: %s, %d MiB, %s", v.Name, at, v.ID, v.Size/harness.Mi, s.elapsed(begin))
	}
	return nil
}

func (s *demo) stageAndMount(ctx context.Context) error {
	for _, u := range s.staged {
		begin := time.Now()
		if err := s.co.PublishStageBind(ctx, u.Volume, "n1"); err != nil {
			return err
		}
		up := s.elapsed(begin)
		if err := u.write(); err != nil {
			return err
		}
		s.printStepf("%-10s %s at %s after %s; wrote %d KiB, sha256 %.12s", u.Name, u.kind(), u.Target, up, len(u.data)/1024, u.sum())
	}
	return nil
}

// burst creates many volumes and kills the leader when a third of them exists.
func (s *demo) burst(ctx context.Context) error {
	leader, err := s.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	var mu sync.Mutex
	var slowest time.Duration
	var g errgroup.Group
	g.SetLimit(burstWorkers)
	kill := sync.OnceValue(func() error { return s.kill(leader, begin) })
	for i := range burstSize {
		g.Go(func() error {
			called := time.Now()
			v, err := s.co.Create(ctx, harness.Spec{Name: fmt.Sprintf("burst-%02d", i)})
			if err != nil {
				return err
			}
			mu.Lock()
			s.volumes[v.Name] = v
			slowest = max(slowest, time.Since(called))
			reached := len(s.volumes) >= burstSize/3
			mu.Unlock()
			if reached {
				return kill()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	next, err := s.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	s.printStepf("%d volumes in %s; the slowest create, repeated as a CO repeats it, took %s; %d calls were repeated",
		burstSize, s.elapsed(begin), slowest.Round(time.Millisecond), s.co.Retries.Load())
	s.printStepf("%s leads now", next)
	return nil
}

func (s *demo) kill(leader string, begin time.Time) error {
	pid, err := s.cluster.Signal(leader, syscall.SIGKILL)
	if err == nil {
		s.printStepf("%s into the burst: SIGKILL to the leader %s, process %d", s.elapsed(begin), leader, pid)
	}
	return err
}

func (s *demo) checkOwners(ctx context.Context) error {
	listed, err := s.co.List(ctx)
	if err != nil {
		return err
	}
	files, err := s.cluster.Images("n1")
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, id := range files {
		there[id] = true
	}
	owner := map[string]string{}
	for name, v := range s.volumes {
		again, err := s.co.Create(ctx, volumeSpec(v))
		_, isListed := listed[v.ID]
		switch {
		case err != nil:
			return err
		case again.ID != v.ID:
			return fmt.Errorf("%s is volume %s and volume %s", name, v.ID, again.ID)
		case owner[v.ID] != "":
			return fmt.Errorf("volume %s is %s and %s", v.ID, name, owner[v.ID])
		case !isListed || !there[v.ID]:
			return fmt.Errorf("volume %s of %s: listed %t, has a file %t", v.ID, name, isListed, there[v.ID])
		}
		owner[v.ID] = name
	}
	if len(listed) != len(s.volumes) || len(files) != len(s.volumes) {
		return fmt.Errorf("%d names, %d volumes, %d files", len(s.volumes), len(listed), len(files))
	}
	s.printStepf("%d names, %d volumes, %d files; each name asked for again gave the same volume", len(s.volumes), len(listed), len(files))
	return nil
}

// volumeSpec returns the spec of an existing volume.
func volumeSpec(v *harness.Volume) harness.Spec {
	return harness.Spec{Name: v.Name, Size: v.Size, FSType: v.FSType, Block: v.Block}
}

func (s *demo) devices(context.Context) error {
	inUse := map[string]bool{}
	for _, u := range s.staged {
		inUse[u.ID] = true
	}
	for _, v := range s.volumes {
		loops, err := s.cluster.LoopsOf(v.ID)
		if err != nil {
			return err
		}
		want := 0
		if inUse[v.ID] {
			want = 1
		}
		if len(loops) != want {
			return fmt.Errorf("%s has %d loop devices, not %d: %v", v.Name, len(loops), want, loops)
		}
		if want == 1 {
			s.printStepf("%-10s %s", v.Name, loops[0].Device)
		}
	}
	s.printStepf("the other %d have none", len(s.volumes)-len(inUse))
	return nil
}

func (s *demo) verify(context.Context) error {
	for _, u := range s.staged {
		if err := u.verify(); err != nil {
			return err
		}
		s.printStepf("%-10s sha256 %.12s, as written", u.Name, u.sum())
	}
	return nil
}

func (s *demo) history(ctx context.Context) error {
	res := s.cluster.Run(ctx, "history", "--dir", s.cluster.Dir, "--volume", s.staged[0].ID)
	if res.Code != 0 || res.Stdout == "" {
		return fmt.Errorf("history exited %d: %s", res.Code, res.Stderr)
	}
	for line := range strings.Lines(res.Stdout) {
		s.printStepf("%s", strings.TrimRight(line, "\n"))
	}
	return nil
}

func (s *demo) audit(ctx context.Context) error {
	if err := errors.Join(s.cluster.AwaitCleanAudit(ctx), s.cluster.AwaitAgreement(ctx)); err != nil {
		return err
	}
	a, err := s.cluster.Audit(ctx)
	if err != nil {
		return err
	}
	s.printStepf("%d things checked; no orphan, nothing missing, nothing pending", a.Checked)
	status, err := s.cluster.Status(ctx)
	if err != nil {
		return err
	}
	for _, m := range status.Members {
		s.printStepf("%s %-8s state at index %d: %.16s", m.ID, m.Role, m.HashIndex, m.StateHash)
	}
	return nil
}

// deleteSnapshot deletes the snapshot, whose source volume is deleted already.
func (s *demo) deleteSnapshot(ctx context.Context) error {
	c, err := s.controller(ctx)
	if err != nil {
		return err
	}
	_, err = c.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: s.snapshot})
	return err
}

func (s *demo) tearDown(ctx context.Context) error {
	for _, u := range s.staged {
		if err := s.co.UnbindUnstageUnpublish(ctx, u.Volume); err != nil {
			return err
		}
	}
	var g errgroup.Group
	g.SetLimit(burstWorkers)
	for _, v := range s.volumes {
		g.Go(func() error { return s.co.Delete(ctx, v) })
	}
	if err := errors.Join(g.Wait(), s.deleteSnapshot(ctx), s.cluster.AwaitNoLeftovers(ctx)); err != nil {
		return err
	}
	s.printStepf("%d volumes deleted, and the snapshot after them; no file, loop device or mount is left", len(s.volumes))
	base := s.cluster.Base
	err := s.cluster.Clean(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	s.cluster = nil
	if _, err := os.Stat(base); !os.IsNotExist(err) {
		return fmt.Errorf("%s is still there", base)
	}
	s.printStepf("the cluster is stopped and its folder removed")
	return nil
}
