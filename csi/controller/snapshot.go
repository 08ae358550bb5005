package controller

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const createDeleteSnapshot = csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT

// CreateSnapshot returns once the snapshot is taken; it is complete then. It says ABORTED
// just before the caller's deadline; the retry joins.
func (s *Server) CreateSnapshot(ctx context.Context, req *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if err := s.enabled.checkEnabled(createDeleteSnapshot); err != nil {
		return nil, err
	}
	cmd, err := snapshotCommand(s.client.Site(), req)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	id, err := s.createSnapshot(ctx, cmd)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	snapshot, err := s.progress.awaitSnapshotReady(ctx, id)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshot}, nil
}

func snapshotCommand(site string, req *csi.CreateSnapshotRequest) (*fsmpb.CreateSnapshot, error) {
	source := fsm.VolumeID(req.GetSourceVolumeId())
	switch {
	case req.GetName() == "":
		return nil, fsm.Reject(fsm.Invalid, "name is required")
	case source == "":
		return nil, fsm.Reject(fsm.Invalid, "source_volume_id is required")
	}
	if err := csiconv.NoParameters(site, req.GetParameters()); err != nil {
		return nil, err
	}
	if !source.Valid() {
		return nil, fsm.UnknownVolume(source)
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make an id for snapshot %q: %w", req.GetName(), err)
	}
	return &fsmpb.CreateSnapshot{SnapshotId: string(fsm.SnapshotIDFrom(id)), Name: req.GetName(), SourceVolumeId: string(source)}, nil
}

// createSnapshot proposes the snapshot, and returns the id of the one that has the name from now on.
func (s *Server) createSnapshot(ctx context.Context, cmd *fsmpb.CreateSnapshot) (fsm.SnapshotID, error) {
	out, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_CreateSnapshot{CreateSnapshot: cmd}})
	return fsm.SnapshotID(out.GetSnapshotId()), err
}

func (p *progress) awaitSnapshotReady(ctx context.Context, id fsm.SnapshotID) (*csi.Snapshot, error) {
	var created *fsm.Snapshot
	err := p.awaitSnapshot(ctx, id, "create", func(state *fsm.State) (_ bool, rejection *fsm.Rejection) {
		created, rejection = state.SnapshotCreation(id)
		return created != nil, rejection
	})
	if err != nil {
		return nil, err
	}
	return csiconv.Snapshot(created), nil
}

// DeleteSnapshot returns once the snapshot's host removed it; on an unreachable one the
// removal stays pending (S18). What is unknown is deleted.
func (s *Server) DeleteSnapshot(ctx context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if err := s.enabled.checkEnabled(createDeleteSnapshot); err != nil {
		return nil, err
	}
	id := fsm.SnapshotID(req.GetSnapshotId())
	if id == "" {
		return nil, rpcerr.Invalid("snapshot_id is required")
	}
	if !id.Valid() {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	cmd := &fsmpb.DeleteSnapshot{SnapshotId: string(id)}
	_, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_DeleteSnapshot{DeleteSnapshot: cmd}})
	if err == nil {
		err = s.progress.awaitSnapshot(ctx, id, "delete", func(state *fsm.State) (bool, *fsm.Rejection) { return state.SnapshotRemoval(id) })
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// GetSnapshot is the current information of one snapshot that is taken.
func (s *Server) GetSnapshot(ctx context.Context, req *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_GET_SNAPSHOT); err != nil {
		return nil, err
	}
	id := fsm.SnapshotID(req.GetSnapshotId())
	if id == "" {
		return nil, rpcerr.Invalid("snapshot_id is required")
	}
	resp := &csi.GetSnapshotResponse{}
	err := s.state.readState(ctx, func(state *fsm.State) error {
		snap, rejection := state.KnownSnapshot(id)
		if rejection != nil {
			return rejection
		}
		resp.Snapshot = csiconv.Snapshot(snap)
		return nil
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return resp, nil
}
