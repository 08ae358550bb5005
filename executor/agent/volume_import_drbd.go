package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const importedMetadataDir = "drbd-metadata"

// importedMetadata is the file that has a dump of the metadata that a device had before it was imported as the volume.
// It is never removed by Holdfast.
func (t *table) importedMetadata(id fsm.VolumeID) string {
	return filepath.Join(t.Host.Dir(), importedMetadataDir, string(id)+".md")
}

// metadataImporter is the host's DRBD as one that reads what others made.
func (t *table) metadataImporter() (executor.MetadataImporter, error) {
	if i, ok := t.Replicator.(executor.MetadataImporter); ok {
		return i, nil
	}
	return nil, fsm.Reject(fsm.Precondition, "this host cannot read DRBD's metadata: install drbd-utils, and give it a replication address")
}

// checkReplicaOfOthers refuses a device that is not what the plan showed, before anything of it is changed.
func (j *job) checkReplicaOfOthers(ctx context.Context, pool executor.ImportBackend) error {
	importer, err := j.metadataImporter()
	if err != nil {
		return err
	}
	device, err := pool.Locate(ctx, j.want.Import)
	switch {
	case err != nil:
		return err
	case device.Path == "" && !j.have.Unfinished:
		return fsm.Reject(fsm.Busy, "the device %s is not active, so its metadata cannot be read: activate it with `lvchange -ay -K`", j.want.Import)
	case device.Path == "":
		return nil // it was checked before its import began, and is when it ended
	}
	_, err = j.readExpectedMetadata(ctx, importer, device.Path)
	return err
}

// readExpectedMetadata returns the dump of the metadata, when they are those that the log names, and so is what was read of
// the content: a mount of the device itself changes that alone.
func (j *job) readExpectedMetadata(ctx context.Context, importer executor.MetadataImporter, path string) ([]byte, error) {
	m, dump, err := importer.ForeignMetadata(ctx, path)
	if err != nil {
		return nil, err
	}
	if why := j.want.ImportDRBD.Fits(m); why != "" {
		return nil, fsm.Reject(fsm.Precondition, "the device %s of volume %s is not imported: %s", j.want.Import, j.v.id, why)
	}
	digest, err := importer.ContentDigest(ctx, path, j.want.ImportDRBD.ContentBytes)
	if err != nil {
		return nil, err
	}
	if string(digest) != j.want.ImportDRBD.ContentDigest {
		return nil, fsm.Reject(fsm.Precondition, "the device %s of volume %s is not imported: it was written to without DRBD: let nothing do so, and plan again", j.want.Import, j.v.id)
	}
	return dump, nil
}

// performImportDRBD does a step on the device, which has the volume's name, while it is active for that alone.
func (j *job) performImportDRBD(ctx context.Context, kind plan.StepKind, backend executor.Backend) (err error) {
	importer, err := j.metadataImporter()
	if err != nil {
		return err
	}
	if r, replicated := backend.(*replicaBackend); replicated {
		if err := r.checkDown(ctx); err != nil {
			return err
		}
		backend = r.Backend
	}
	device, err := backend.Activate(ctx, j.v.id, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Deactivate(context.WithoutCancel(ctx), j.v.id)) }()
	if kind == plan.StepVerifyImport {
		if _, err := j.readExpectedMetadata(ctx, importer, device.Path); err != nil {
			return err
		}
		return j.recordImportDRBD(records.ImportDRBDRecord{Verified: true})
	}
	return j.replaceMetadata(ctx, importer, device.Path)
}

// replaceMetadata overwrites all that is behind the content with zeroes, after a dump of the metadata is in a file and
// that is recorded: from there on they may be half overwritten, and are not read again. The content is not touched. The
// replica's own metadata are made afterwards, as those of one that is created.
func (j *job) replaceMetadata(ctx context.Context, importer executor.MetadataImporter, path string) error {
	if r := j.v.record.ImportDRBD; r == nil || !r.Saved {
		dump, err := j.readExpectedMetadata(ctx, importer, path)
		if err != nil {
			return err
		}
		if err := saveDump(j.importedMetadata(j.v.id), dump); err != nil {
			return fmt.Errorf("keep the metadata of volume %s: %w", j.v.id, err)
		}
		j.hitFaultPoint("replace-metadata.saved")
		if err := j.recordImportDRBD(records.ImportDRBDRecord{Verified: true, Saved: true}); err != nil {
			return err
		}
		j.hitFaultPoint("replace-metadata.recorded")
	}
	if err := importer.ClearBehind(ctx, path, j.want.ImportDRBD.ContentBytes); err != nil {
		return err
	}
	j.hitFaultPoint("replace-metadata.cleared")
	return j.recordImportDRBD(records.ImportDRBDRecord{Verified: true, Saved: true, Replaced: true})
}

// recordImportDRBD records how far the import is, synced.
func (j *job) recordImportDRBD(r records.ImportDRBDRecord) error {
	j.mu.Lock()
	if j.v.desired != nil {
		j.v.record.Pool = j.v.desired.Pool
	}
	j.mu.Unlock()
	j.v.record.ImportDRBD = &r
	return j.records.saveRecord(j.v, true)
}

// saveDump writes a file, and makes the directory that it is in durable too.
func saveDump(path string, text []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(durablefile.Write(path, text, 0o600), durablefile.SyncDir(filepath.Dir(dir)))
}

// describeMetadata adds the metadata of a DRBD resource of others, and what there is to know of the content before them. They
// are not read while anything has the device open.
func (l *lister) describeMetadata(ctx context.Context, p *fsmpb.ImportCandidate, device executor.Device) {
	importer, err := l.metadataImporter()
	if err != nil {
		p.DrbdDetail = err.Error()
		return
	}
	if p.GetOpenCount() > 0 || len(p.GetMounts()) > 0 {
		p.DrbdDetail = "it is open: `drbdadm down` the DRBD resource first"
		return
	}
	p.ReplicatedBytes, p.DrbdRefusal = importer.ReplicatedBytes(p.GetSizeBytes())
	if p.Drbd, _, err = importer.ForeignMetadata(ctx, device.Path); err == nil && p.GetDrbd().GetContentBytes() > 0 {
		err = l.describeContent(ctx, importer, p, device)
	}
	if err != nil {
		p.Drbd, p.DrbdDetail = nil, err.Error()
	}
}

// describeContent adds what tells of writes beside DRBD.
func (l *lister) describeContent(ctx context.Context, importer executor.MetadataImporter, p *fsmpb.ImportCandidate, device executor.Device) (err error) {
	if p.ContentDigest, err = importer.ContentDigest(ctx, device.Path, p.GetDrbd().GetContentBytes()); err != nil {
		return err
	}
	fsType := p.GetFsType()
	if fsType == "" || l.FilesystemTools == nil {
		return nil
	}
	if fsType == "ext2" {
		fsType = "ext4" // whose superblock has its size at the same place
	}
	p.FsBytes, err = l.FilesystemTools.FilesystemSize(ctx, device, fsType)
	return err
}
