package group

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CreateVolumeGroupSnapshot returns once the snapshots of all members are taken, under
// one freeze. A freeze that ended early or a snapshot that failed aborts the attempt:
// nothing of it is kept, and the retry begins another.
func (s *Server) CreateVolumeGroupSnapshot(ctx context.Context, req *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	if err := s.checkEnabled(); err != nil {
		return nil, err
	}
	cmd, err := createCommand(s.client.Site(), req)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	if err := s.nameGroup(ctx, cmd, req.GetParameters()[csiconv.VolumeGroupKey]); err != nil {
		return nil, rpcerr.From(err)
	}
	id, err := s.create(ctx, cmd)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	made, err := s.awaitReady(ctx, id)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: made}, nil
}

// deletionPolicyKey is a field of a VolumeGroupSnapshotClass, for its controller: it decides nothing here. Kubernetes' own tests
// write it among the parameters too.
const deletionPolicyKey = "deletionPolicy"

func createCommand(site string, req *csi.CreateVolumeGroupSnapshotRequest) (*fsmpb.CreateGroupSnapshot, error) {
	sources := slices.Sorted(slices.Values(req.GetSourceVolumeIds()))
	switch {
	case req.GetName() == "":
		return nil, fsm.Reject(fsm.Invalid, "name is required")
	case len(sources) == 0 || sources[0] == "":
		return nil, fsm.Reject(fsm.Invalid, "source_volume_ids are required, and none is empty")
	case len(slices.Compact(slices.Clone(sources))) != len(sources):
		return nil, fsm.Reject(fsm.Invalid, "a volume is twice among source_volume_ids")
	}
	if err := csiconv.NoParameters(site, req.GetParameters(), csiconv.VolumeGroupKey, deletionPolicyKey); err != nil {
		return nil, err
	}
	return newCreateCommand(req.GetName(), sources)
}

// newCreateCommand gives the group and its members new ids; a group that has the name
// already keeps its own.
func newCreateCommand(name string, sources []string) (*fsmpb.CreateGroupSnapshot, error) {
	id, err := uuid.NewRandom()
	cmd := &fsmpb.CreateGroupSnapshot{GroupSnapshotId: "hgs-" + id.String(), Name: name}
	for _, source := range sources {
		if volume := fsm.VolumeID(source); !volume.Valid() {
			return nil, fsm.UnknownVolume(volume)
		}
		member, idErr := uuid.NewRandom()
		err = cmp.Or(err, idErr)
		cmd.Members = append(cmd.Members, &fsmpb.GroupMember{SourceVolumeId: source, SnapshotId: string(fsm.SnapshotIDFrom(member))})
	}
	if err != nil {
		return nil, fmt.Errorf("make ids for group snapshot %q: %w", name, err)
	}
	return cmd, nil
}

// create proposes the group, and returns the id of the one that has the name from now on.
func (s *Server) create(ctx context.Context, cmd *fsmpb.CreateGroupSnapshot) (fsm.GroupSnapshotID, error) {
	out, err := s.client.ProposeCommand(ctx, &fsmpb.Command{Body: &fsmpb.Command_CreateGroupSnapshot{CreateGroupSnapshot: cmd}})
	return fsm.GroupSnapshotID(out.GetGroupSnapshotId()), err
}

func (s *Server) awaitReady(ctx context.Context, id fsm.GroupSnapshotID) (created *csi.VolumeGroupSnapshot, err error) {
	err = s.await(ctx, id, "create", func(state *fsm.State) (bool, *fsm.Rejection) {
		g, rejection := state.GroupCreation(id)
		if g != nil {
			created = groupProto(state, g)
		}
		return g != nil, rejection
	})
	return created, err
}
