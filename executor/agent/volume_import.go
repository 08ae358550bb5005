package agent

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ImportFaultPoints are those of imported volumes only.
var ImportFaultPoints = []string{
	string(plan.StepImport) + ".before", string(plan.StepImport) + ".after", string(plan.StepGiveBack) + ".before", string(plan.StepGiveBack) + ".after",
}

// DRBDImportFaultPoints are those of replicas of DRBD resources of others only.
var DRBDImportFaultPoints = []string{
	string(plan.StepVerifyImport) + ".before", string(plan.StepVerifyImport) + ".after", string(plan.StepReplaceMetadata) + ".before", string(plan.StepReplaceMetadata) + ".after",
	"replace-metadata.saved", "replace-metadata.recorded", "replace-metadata.cleared",
}

// performImport takes a device in, or gives it back. What was given back is noted as removed: the host has no volume of it.
func (j *job) performImport(ctx context.Context, kind plan.StepKind, backend executor.Backend) error {
	pool, err := importPool(backend)
	if err != nil {
		return err
	}
	if kind == plan.StepImport {
		return j.importDevice(ctx, pool)
	}
	if err := pool.GiveBack(ctx, j.v.id, j.want.Import); err != nil {
		return err
	}
	j.noteRemoved(j.v, j.at)
	return nil
}

// importPool is the pool, also of a replicated volume, as one that can take in devices of others.
func importPool(backend executor.Backend) (executor.ImportBackend, error) {
	if r, replicated := backend.(*replicaBackend); replicated {
		backend = r.Backend
	}
	pool, ok := backend.(executor.ImportBackend)
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "pool %s has no devices of others", backend.ID())
	}
	return pool, nil
}

func (j *job) importDevice(ctx context.Context, pool executor.ImportBackend) error {
	if j.want.ImportDRBD == nil {
		return pool.Import(ctx, j.v.id, j.want.Size, j.want.Import)
	}
	if err := j.checkReplicaOfOthers(ctx, pool); err != nil {
		return err
	}
	return pool.Import(ctx, j.v.id, j.want.ImportDRBD.DeviceBytes, j.want.Import)
}

// Candidates lists what could be imported, with what is on it and who uses it. It changes nothing.
func (a *Agent) Candidates(ctx context.Context) (executor.Inventory, error) {
	found := executor.Inventory{Candidates: true}
	for _, pool := range a.Pools {
		storage, ok := pool.(executor.ImportBackend)
		if !ok {
			continue
		}
		candidates, err := storage.Candidates(ctx)
		if err != nil {
			return found, err
		}
		for i := range candidates {
			described, err := a.lister.describeCandidate(ctx, pool.ID(), &candidates[i])
			if err != nil {
				return found, err
			}
			text, err := proto.Marshal(described)
			if err != nil {
				return found, fmt.Errorf("describe %s: %w", candidates[i].Name, err)
			}
			found.Items = append(found.Items, executor.InventoryItem{Kind: executor.KindCandidate, Path: candidates[i].Path, Candidate: string(text)})
		}
	}
	return found, nil
}

// describeCandidate adds who has the device mounted, and which filesystem is on it by its superblock.
func (l *lister) describeCandidate(ctx context.Context, pool fsm.PoolID, c *executor.ImportCandidate) (*fsmpb.ImportCandidate, error) {
	p := &fsmpb.ImportCandidate{
		PoolId: string(pool), DeviceId: c.Device, DeviceName: c.Name, SizeBytes: c.Size, Refusal: c.Refusal,
		Active: c.Path != "", OpenCount: c.OpenCount, Probed: c.Probed, Signatures: c.Signatures, Detail: c.Detail,
	}
	if !p.GetActive() {
		return p, nil
	}
	device := executor.Device{Exists: true, Size: c.Size, Path: c.Path, Number: c.Number}
	mounts, err := l.Mounter.Mounts(ctx, device)
	if err != nil {
		return nil, fmt.Errorf("look at the mounts of %s: %w", c.Name, err)
	}
	for _, m := range mounts {
		p.Mounts = append(p.Mounts, m.Path)
	}
	if content, err := l.Mounter.Probe(ctx, c.Path, c.Size); err != nil {
		p.Probed, p.Detail = false, err.Error() // it may be gone by now, or unreadable
	} else {
		p.FsType, p.FsUuid = content.Found.Type, content.Found.UUID
	}
	l.describeMetadata(ctx, p, device)
	return p, nil
}
