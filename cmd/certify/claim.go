package certify

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/certify"
	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// claim keeps other runs away until this one ends, or is refused because another was the first. A killed run's claim is
// a leftover, as its other volumes are.
func (r *Runner) claim(ctx context.Context, w certify.World, left []*adminpb.Volume) error {
	made := r.persist(ctx, certify.Request{VolumeChangeRequest: r.creation(w, r.run.ClaimName(0), 0)})
	if made.Code != "OK" {
		return fmt.Errorf("claim the cluster for this run: %s %s", made.Code, made.Message)
	}
	var volumes []*adminpb.Volume
	err := await(ctx, "list the volumes", func(ctx context.Context) (err error) { volumes, err = r.volumes(ctx); return err })
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
