package certify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
)

// Pods write on hosts. What they do for a host is called by its number in the plan.
type Pods interface {
	// Write makes a claim and a pod that writes to it, and returns when it runs. The volume is the claim's, by its name in the log.
	Write(ctx context.Context, run certify.Run, n int, host string) (claim, volume string, err error)
	// Acknowledged is what the pod said last; the error is of one that has not said anything yet, or does not write any more.
	Acknowledged(ctx context.Context, run certify.Run, n int) (certify.Acknowledged, error)
	// Stop ends the pod, and returns when it is gone.
	Stop(ctx context.Context, run certify.Run, n int) error
	// Read has another pod read the claim, on the host or elsewhere, and says where.
	Read(ctx context.Context, run certify.Run, n int, host string, elsewhere bool, acknowledged uint64) (on string, found certify.ReadBack, err error)
	// Remove removes all claims and pods of the run, RemoveLeft those that killed runs left.
	Remove(ctx context.Context, run certify.Run) error
	RemoveLeft(ctx context.Context) error
}

// beginWrites returns when every pod of the plan has acknowledged a block.
func (r *Runner) beginWrites(ctx context.Context, plan *certify.Plan, w certify.World) error {
	if plan.Writes == nil {
		return nil
	}
	r.Progress("pods begin to write on the hosts %s", strings.Join(plan.Writes.Hosts, ", "))
	for _, host := range plan.Writes.Hosts {
		r.writes = append(r.writes, certify.Write{Host: host, Class: plan.Writes.Class, Begun: time.Now().UTC()})
	}
	err := r.onHosts(ctx, w, func(n int, one *certify.Write) error {
		claim, volume, err := r.Pods.Write(ctx, r.run, n, one.Host)
		if err != nil {
			return err
		}
		one.Claim = claim
		return r.findVolume(ctx, one, volume)
	})
	if err != nil {
		return err
	}
	return r.awaitWrites(ctx, w)
}

// findVolume finds the volume of a claim in the log.
func (r *Runner) findVolume(ctx context.Context, one *certify.Write, name string) error {
	return await(ctx, "find the volume "+name, func(ctx context.Context) error {
		volumes, err := r.volumes(ctx)
		for _, v := range volumes {
			if v.GetName() != name {
				continue
			}
			one.Volume = v.GetId()
			for _, replica := range v.GetReplicas() {
				one.Copies = append(one.Copies, replica.GetNode())
			}
			return nil
		}
		return errors.Join(err, errWait)
	})
}

// awaitWrites returns when every pod has acknowledged more than before.
func (r *Runner) awaitWrites(ctx context.Context, w certify.World) error {
	err := r.onHosts(ctx, w, func(n int, one *certify.Write) error {
		before := one.Number
		return await(ctx, "wait for an acknowledged write", func(ctx context.Context) error {
			said, err := r.Pods.Acknowledged(ctx, r.run, n)
			if err == nil && said.Number <= before {
				err = fmt.Errorf("block %d was the last that was acknowledged", before)
			}
			if err == nil {
				one.Acknowledged = said
			}
			return err
		})
	})
	for i := range r.writes {
		one := &r.writes[i]
		r.Progress("host %s: %d writes acknowledged, longest pause %s", one.Host, one.Number, one.Longest.Round(time.Millisecond))
	}
	return err
}

// endWrites ends the pods and reads back what they wrote, and reports it.
func (r *Runner) endWrites(ctx context.Context, report *certify.Report, plan *certify.Plan, w certify.World) error {
	if plan.Writes == nil {
		return nil
	}
	r.Progress("the volumes are unmounted, and what was acknowledged is read back")
	err := r.onHosts(ctx, w, func(n int, one *certify.Write) error {
		if err := r.readBack(ctx, plan.Writes, n, one); err != nil {
			return err
		}
		one.Ended = time.Now().UTC()
		one.Judge(plan.Writes.Blocks())
		return nil
	})
	for i := range r.writes {
		one := &r.writes[i]
		if one.Ended.IsZero() {
			one.Why = "it was not read back"
		}
		report.Writes = append(report.Writes, *one)
	}
	return err
}

// readBack has another pod read the volume when no host has it any more: what it reads, it mounted.
func (r *Runner) readBack(ctx context.Context, plan *certify.WritePlan, n int, one *certify.Write) error {
	if err := r.Pods.Stop(ctx, r.run, n); err != nil {
		return err
	}
	err := r.awaitVolume(ctx, "wait until no host has volume "+one.Volume, one.Volume, func(v *adminpb.Volume) bool {
		return v != nil && len(v.GetPublications()) == 0 && len(v.GetTeardowns()) == 0
	})
	if err != nil {
		return err
	}
	elsewhere := plan.Replicated && len(one.Copies) > 1
	one.ReadOn, one.ReadBack, err = r.Pods.Read(ctx, r.run, n, one.Host, elsewhere, one.Number)
	return err
}

// awaitVolume waits until a volume is as wanted; nil is one that the log does not have.
func (r *Runner) awaitVolume(ctx context.Context, what, id string, wanted func(*adminpb.Volume) bool) error {
	return await(ctx, what, func(ctx context.Context) error {
		volumes, err := r.volumes(ctx)
		if err != nil {
			return err
		}
		var found *adminpb.Volume
		for _, v := range volumes {
			if v.GetId() == id {
				found = v
			}
		}
		if !wanted(found) {
			return errWait
		}
		return nil
	})
}

// removeWrites removes the pods, the claims and the volumes of the run.
func (r *Runner) removeWrites(ctx context.Context, w certify.World) error {
	if r.Pods == nil {
		return nil
	}
	return r.whileClaimed(ctx, w, func() error { return r.removePods(ctx) })
}

func (r *Runner) removePods(ctx context.Context) error {
	if err := r.Pods.Remove(ctx, r.run); err != nil {
		return err
	}
	for i := range r.writes {
		if id := r.writes[i].Volume; id != "" {
			if err := r.awaitVolume(ctx, "wait until volume "+id+" is removed", id, func(v *adminpb.Volume) bool { return v == nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// onHosts does something for all hosts at once, and has a young claim on the cluster for as long as that takes.
func (r *Runner) onHosts(ctx context.Context, w certify.World, do func(n int, one *certify.Write) error) error {
	return r.whileClaimed(ctx, w, func() error {
		var all sync.WaitGroup
		failed := make([]error, len(r.writes))
		for n := range r.writes {
			all.Go(func() {
				if err := do(n, &r.writes[n]); err != nil {
					failed[n] = fmt.Errorf("host %s: %w", r.writes[n].Host, err)
				}
			})
		}
		all.Wait()
		return firstOf(failed...)
	})
}
