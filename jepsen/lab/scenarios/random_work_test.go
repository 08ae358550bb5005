package scenarios

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
)

// move moves a volume in order, as far as the faults let it: what is missing is done when they have ended.
func (r *randomRun) move() (string, func()) {
	s := r.anyReplicated()
	from, to := s.holder, s.peer(s.holder)
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	s.end(s.writer())
	err := r.co.unstage(ctx, s.v, from)
	for err == nil && ctx.Err() == nil && s.holder != "" {
		if r.co.unpublish(ctx, s.v, from) == nil {
			s.holder = ""
		}
	}
	if err = errors.Join(err, ctx.Err()); err == nil {
		err = r.co.publish(ctx, s.v, to)
	}
	if err == nil {
		s.holder = to
		err = r.co.stage(ctx, s.v, to)
	}
	if err == nil {
		s.beginTurn()
	}
	return fmt.Sprintf("%s from %s to %s: %v", s.v.name, from, to, err), nil
}

// meanwhile repeats work until it succeeds, while faults begin and end; the round ends after it.
func (r *randomRun) meanwhile(what string, work func(context.Context) error) func() {
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*resyncTimeout)
	go func() {
		defer cancel()
		for {
			err := work(ctx)
			if err == nil || ctx.Err() != nil {
				done <- err
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	return func() {
		r.pending = append(r.pending, func() { require.NoError(r.t, <-done, "%s", what) })
	}
}

// snapshot takes one of a volume in use, and deletes it.
func (r *randomRun) snapshot() (string, func()) {
	s := r.subjects[r.rng.IntN(len(r.subjects))]
	r.count++
	name := fmt.Sprintf("random-snapshot-%d", r.count)
	return s.v.name, r.meanwhile("snapshot of "+s.v.name, func(ctx context.Context) error {
		id, err := r.co.snapshot(ctx, s.v, name)
		if err != nil {
			return err
		}
		return r.co.deleteSnapshot(ctx, id)
	})
}

func (c *orchestrator) snapshot(ctx context.Context, v *volume, name string) (id string, err error) {
	err = c.callAnyController(ctx, "snapshot "+v.name, func(ctx context.Context, controller csi.ControllerClient) error {
		resp, err := controller.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: v.id})
		id = resp.GetSnapshot().GetSnapshotId()
		if err == nil && !resp.GetSnapshot().GetReadyToUse() {
			err = errors.New("it is not ready")
		}
		return err
	})
	return id, err
}

func (c *orchestrator) deleteSnapshot(ctx context.Context, id string) error {
	return c.callAnyController(ctx, "delete snapshot "+id, func(ctx context.Context, controller csi.ControllerClient) error {
		_, err := controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: id})
		return err
	})
}

// grow makes a volume larger, and the filesystem with it where it is staged at the end.
func (r *randomRun) grow() (string, func()) {
	s := r.subjects[r.rng.IntN(len(r.subjects))]
	s.v.size += 8 * mi
	return fmt.Sprintf("%s to %d", s.v.name, s.v.size), r.meanwhile("growth of "+s.v.name, func(ctx context.Context) error {
		return r.co.expand(ctx, s.v)
	})
}

func (c *orchestrator) expand(ctx context.Context, v *volume) error {
	return c.callAnyController(ctx, "expand "+v.name, func(ctx context.Context, controller csi.ControllerClient) error {
		_, err := controller.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
			VolumeId: v.id, CapacityRange: &csi.CapacityRange{RequiredBytes: v.size}, VolumeCapability: v.capability(),
		})
		return err
	})
}

// replace has the replica that is not in use made anew on the third host.
func (r *randomRun) replace() (string, func()) {
	s := r.anyReplicated()
	node := s.peer(s.holder)
	host, err := r.cluster.Host(r.t.Context(), node)
	r.must(err)
	evict := []string{"nodes", "evict", node, "--host-id", host, "--yes", "--reason", "a random replacement"}
	_, _, err = r.cluster.Admin(r.t.Context(), evict...)
	r.must(err)
	return s.v.name + " from " + node, func() {
		r.pending = append(r.pending, func() {
			eventually(r.t, 2*resyncTimeout, s.v.name+" has left "+node, func(ctx context.Context) error {
				out, _, err := r.cluster.Admin(ctx, evict...)
				hosts, herr := r.hostsOf(ctx, s.v)
				if err = errors.Join(err, herr); err == nil && (slices.Contains(hosts, node) || len(hosts) != 2) {
					err = fmt.Errorf("it is on %v: %s", hosts, strings.TrimSpace(out))
				}
				return err
			})
			r.mustAdmin("nodes", "undrain", node, "--host-id", host, "--yes")
			r.updateHosts()
		})
	}
}

// mustAdmin runs an operator's command until a controller answers it.
func (r *randomRun) mustAdmin(args ...string) {
	eventually(r.t, timeout, strings.Join(args, " "), func(ctx context.Context) error {
		out, code, err := r.cluster.Admin(ctx, args...)
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d: %s", code, strings.TrimSpace(out))
		}
		return err
	})
}

// hostsOf are those that have a replica by the log.
func (r *randomRun) hostsOf(ctx context.Context, v *volume) (hosts []string, err error) {
	var all struct {
		Volumes []struct {
			Replicas []struct {
				Node string `json:"node"`
			} `json:"replicas"`
		} `json:"volumes"`
	}
	if err := r.cluster.Ask(ctx, &all, "volumes", v.id); err != nil {
		return nil, err
	}
	for _, a := range all.Volumes {
		for _, replica := range a.Replicas {
			hosts = append(hosts, replica.Node)
		}
	}
	slices.Sort(hosts)
	return hosts, nil
}

// updateHosts brings the volumes' hosts up to date, when no more replica is on its way.
func (r *randomRun) updateHosts() {
	for _, s := range r.subjects {
		if !s.replicated() {
			continue
		}
		eventually(r.t, 2*resyncTimeout, s.v.name+" has two replicas", func(ctx context.Context) error {
			hosts, err := r.hostsOf(ctx, s.v)
			if err == nil && len(hosts) != 2 {
				err = fmt.Errorf("it is on %v", hosts)
			}
			if err == nil {
				s.v.hosts = hosts
			}
			return err
		})
	}
}
