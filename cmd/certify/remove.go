package certify

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// removeOwn removes the volumes of this run; its claims are left until it ends.
func (r *Runner) removeOwn(ctx context.Context) error {
	var own []*adminpb.Volume
	err := await(ctx, "list the volumes", func(ctx context.Context) error {
		volumes, err := r.volumes(ctx)
		own = nil
		for _, v := range volumes {
			if r.run.Owns(v.GetName()) && v.GetMadeBy() == r.Actor && (r.ends || !r.run.IsClaim(v.GetName())) {
				own = append(own, v)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.remove(ctx, own)
}

// removeLeft removes what killed runs left.
func (r *Runner) removeLeft(ctx context.Context, left []*adminpb.Volume) error {
	if r.Pods != nil {
		if err := r.Pods.RemoveLeft(ctx); err != nil {
			return err
		}
	}
	return r.remove(ctx, left)
}

// remove ends what operators published of the volumes, and deletes them by their ids.
func (r *Runner) remove(ctx context.Context, volumes []*adminpb.Volume) error {
	for _, v := range volumes {
		for _, p := range v.GetPublications() {
			if err := r.finish(ctx, &adminpb.VolumeChangeRequest{Verb: "unpublish", Volume: v.GetId(), Node: p.GetNode(), OperatorsOnly: true, Reason: r.run.Reason()}); err != nil {
				return err
			}
		}
		if err := r.finish(ctx, &adminpb.VolumeChangeRequest{Verb: "delete", Volume: v.GetId(), Reason: r.run.Reason()}); err != nil {
			return err
		}
	}
	return nil
}

// finish has a change made to its end.
func (r *Runner) finish(ctx context.Context, req *adminpb.VolumeChangeRequest) error {
	return await(ctx, req.GetVerb()+" volume "+req.GetVolume(), func(ctx context.Context) error {
		return r.Client.TryEach(ctx, func(ctx context.Context, api adminpb.AdminClient) error {
			resp, err := api.ChangeVolume(ctx, req)
			if err == nil && !resp.GetDone() {
				err = fmt.Errorf("%s", resp.GetSteps()[0].GetDetail())
			}
			return err
		})
	})
}
