package volumegroup

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// awaitClaimEnd waits until nothing of a replicated group's volumes is used at the endpoint's site, where that site is not
// its primary (S37). A group that is not replicated ends no claim.
func (s *Server) awaitClaimEnd(ctx context.Context, id fsm.VolumeGroupID, members []fsm.VolumeID) error {
	source, waitsFor := &fsmpb.ReplicationSource{VolumeGroupId: string(id)}, ""
	wake, stop := s.client.WatchVolumes(members...)
	defer stop()
	err := s.client.Await(ctx, wake, "end the use of volume group "+string(id), func(state *fsm.State) (done bool, rej *fsm.Rejection) {
		done, waitsFor, rej = state.ClaimEndHolds(source, fsm.SiteFrom(s.client.Site()))
		return done, rej
	})
	if err != nil && waitsFor != "" {
		return fsm.Reject(fsm.Busy, "volume group %s: %s; the retry joins", id, waitsFor)
	}
	return err
}
