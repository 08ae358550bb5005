package certify

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// claimEvery is after how long another claim on the cluster is made while something takes long: what has no young one is taken for
// killed. Tests set a shorter time.
var claimEvery = time.Minute

// claim keeps other runs away until this one ends, or is refused because another was the first. A killed run's claim is
// a leftover, as its other volumes are.
func (r *Runner) claim(ctx context.Context, w certify.World, left []*adminpb.Volume) error {
	made := r.persist(ctx, certify.Request{VolumeChangeRequest: r.creation(w, r.run.ClaimName(0), 0)})
	if made.Code != "OK" {
		return fmt.Errorf("claim the cluster for this run: %s %s", made.Code, made.Message)
	}
	volumes, err := r.awaitVolumes(ctx)
	if err != nil {
		return err
	}
	if first := r.run.FirstClaim(made.Created, volumes, left); first != nil {
		return exit.Refusedf("a run of %s began first, with volume %s: wait until it has ended; what a killed one leaves is removed once it is older than %s",
			first.GetMadeBy(), first.GetName(), r.OlderThan)
	}
	return nil
}

// renewClaim makes a claim that is young, and removes the one before it.
func (r *Runner) renewClaim(ctx context.Context, w certify.World) error {
	r.claims++
	made := r.persist(ctx, certify.Request{VolumeChangeRequest: r.creation(w, r.run.ClaimName(r.claims), 0)})
	if made.Code != "OK" {
		return fmt.Errorf("claim the cluster for the next step: %s %s", made.Code, made.Message)
	}
	if r.youngest != "" {
		if err := r.finish(ctx, &adminpb.VolumeChangeRequest{Verb: "delete", Volume: r.youngest, Reason: r.run.Reason()}); err != nil {
			return err
		}
	}
	r.youngest = made.Volume
	return nil
}

// whileClaimed does something that may take long, and has a young claim on the cluster for as long as it takes.
func (r *Runner) whileClaimed(ctx context.Context, w certify.World, do func() error) (lost error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		select {
		case err := <-done:
			return firstOf(err, lost)
		case <-time.After(claimEvery):
			if err := r.renewClaim(ctx, w); err != nil {
				lost = err
			}
		}
	}
}
