package group

import (
	"context"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// nameGroup has the snapshots be of all members of a volume group of the endpoint's site, given by its id or
// its name; an empty one means any volumes. What was given is compared when the request is repeated. A name
// that is not known is left as it is: the log refuses it, unless the snapshots were made before the group was
// deleted.
func (s *Server) nameGroup(ctx context.Context, cmd *fsmpb.CreateGroupSnapshot, given string) error {
	if given == "" {
		return nil
	}
	cmd.VolumeGroupId, cmd.Fingerprint = given, []byte(csiconv.Fingerprint(csiconv.VolumeGroupKey, given))
	return s.client.ReadState(ctx, func(state *fsm.State) error {
		if _, ok := state.VolumeGroup(fsm.VolumeGroupID(given)); ok {
			return nil
		}
		if g, ok := state.VolumeGroupByName(fsm.SiteFrom(s.client.Site()), given); ok {
			cmd.VolumeGroupId = string(g.ID)
		}
		return nil
	})
}
