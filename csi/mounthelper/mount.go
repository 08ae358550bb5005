package mounthelper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Request is what is mounted where.
type Request struct {
	Volume   string // an id or a name
	Target   string
	ReadOnly bool
	Flags    []string // of the mount; the node decides which are served
	// Secrets open an encrypted volume; they are passed to the node and kept nowhere.
	Secrets map[string]string
}

// Mount mounts a volume: find, record, publish, stage, bind, register. Each step may be repeated, so the same mount goes
// on where another one ended, and what is mounted is done.
func (h *Helper) Mount(ctx context.Context, req Request) error {
	until := time.Now().Add(h.Patience)
	node, err := h.nodeID(ctx, until)
	if err != nil {
		return err
	}
	v, err := h.find(ctx, req.Volume, node, until)
	if err != nil {
		return err
	}
	unlock, err := h.lock(ctx, v.ID, until)
	if err != nil {
		return err
	}
	defer unlock()
	if v, err = h.find(ctx, string(v.ID), node, until); err != nil { // who had the lock may have changed it
		return err
	}
	if v.Published && v.Orchestrated {
		return refused("an orchestrator published volume %s to this node, and would end what is mounted: mount it when that is over", v.Name)
	}
	if v.Published && v.ReadOnly && !req.ReadOnly {
		return refused("volume %s is published to this node for reading only: mount it with -o ro", v.Name)
	}
	record, err := h.record(ctx, v, node, req)
	if err != nil {
		return err
	}
	return h.mount(ctx, v, record, req, until)
}

func (h *Helper) find(ctx context.Context, idOrName, node string, until time.Time) (v *Volume, err error) {
	err = h.repeat(ctx, "find volume "+idOrName, until, func(ctx context.Context) (err error) {
		v, err = h.Controllers.Find(ctx, idOrName, node)
		return err
	})
	return v, err
}

func (h *Helper) lock(ctx context.Context, id fsm.VolumeID, until time.Time) (unlock func(), err error) {
	err = h.repeat(ctx, "mount or unmount", until, func(context.Context) (err error) {
		unlock, err = h.records().lock(id)
		return err
	})
	return unlock, err
}

// record writes down what is mounted where, before anything is done. A mount of the volume elsewhere that is over, as
// after a boot, is given back first.
func (h *Helper) record(ctx context.Context, v *Volume, node string, req Request) (*Record, error) {
	at, err := h.records().at(req.Target)
	if err != nil {
		return nil, err
	}
	if at != nil && at.ID != v.ID {
		return nil, refused("volume %s is mounted on %s, or was and is not given back: `holdfast umount %s` first", at.Name, req.Target, req.Target)
	}
	old, err := h.records().read(v.ID)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Target != req.Target {
		if err := h.giveBackElsewhere(ctx, old); err != nil {
			return nil, err
		}
		old = nil
	}
	record := &Record{ID: v.ID, Name: v.Name, Node: node, Target: req.Target, Block: v.Capability.GetBlock() != nil}
	if err := h.checkTarget(record, old); err != nil {
		return nil, err
	}
	return record, h.records().write(record)
}

func (h *Helper) giveBackElsewhere(ctx context.Context, old *Record) error {
	mounted, err := h.Table.IsMounted(old.Target)
	switch {
	case err != nil:
		return err
	case mounted:
		return refused("volume %s is mounted on %s already", old.Name, old.Target)
	}
	return h.giveBack(ctx, old, time.Now().Add(h.Patience))
}

// checkTarget sees what is mounted on. The folder must be there, as mount(8) has it; one that the node removed, and that
// nobody made again since, is.
func (h *Helper) checkTarget(record, old *Record) error {
	if old != nil {
		record.Mode, record.UID, record.GID = old.Mode, old.UID, old.GID
	}
	mounted, err := h.Table.IsMounted(record.Target)
	if err != nil || record.Block || (mounted && old != nil) {
		return err
	}
	if mounted {
		return refused("something else is mounted on %s", record.Target)
	}
	info, err := os.Lstat(record.Target)
	switch {
	case errors.Is(err, fs.ErrNotExist) && old != nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return refused("the mount point %s is not there: make the folder first", record.Target)
	case err != nil:
		return fmt.Errorf("look at the mount point: %w", err)
	case !info.IsDir():
		return refused("the mount point %s is no folder", record.Target)
	}
	record.Mode = uint32(info.Mode().Perm())
	record.UID, record.GID = owner(info)
	return nil
}

func (h *Helper) mount(ctx context.Context, v *Volume, record *Record, req Request, until time.Time) error {
	staging, capability := h.records().staging(v.ID), proto.CloneOf(v.Capability)
	if m := capability.GetMount(); m != nil {
		m.MountFlags = req.Flags
	} else if len(req.Flags) > 0 {
		return status.Error(codes.InvalidArgument, "a raw volume takes no mount flags")
	}
	if err := os.MkdirAll(staging, 0o700); err != nil {
		return fmt.Errorf("make the staging folder: %w", err)
	}
	var published map[string]string
	for _, s := range []struct {
		what string
		call func(context.Context) error
	}{
		{"publish", func(ctx context.Context) (err error) {
			published, err = h.Controllers.Publish(ctx, v.ID, record.Node, publishReadOnly(v, req))
			return err
		}},
		{"stage", func(ctx context.Context) error {
			_, err := h.Node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: string(v.ID), StagingTargetPath: staging,
				VolumeCapability: capability, PublishContext: published, Secrets: req.Secrets})
			return err
		}},
		{"mount", func(ctx context.Context) error {
			_, err := h.Node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: string(v.ID), StagingTargetPath: staging,
				TargetPath: req.Target, VolumeCapability: capability, PublishContext: published, Readonly: req.ReadOnly})
			return err
		}},
	} {
		if err := h.repeat(ctx, s.what+" volume "+v.Name, until, s.call); err != nil {
			return h.undoRefused(ctx, v, record, err, until)
		}
	}
	return h.finish(ctx, v, record, req)
}

// undoRefused gives back a volume that was not published before, and that this host definitely cannot mount so.
func (h *Helper) undoRefused(ctx context.Context, v *Volume, record *Record, refusal error, until time.Time) error {
	if v.Published || slices.Contains(retriable, status.Code(refusal)) {
		return refusal
	}
	return also(refusal, h.giveBack(ctx, record, until))
}

// publishReadOnly: a publication that is there stays what it is.
func publishReadOnly(v *Volume, req Request) bool {
	if v.Published {
		return v.ReadOnly
	}
	return req.ReadOnly
}

// finish has umount(8) call this helper. The filesystem of a volume that was expanded grew when it was staged.
func (h *Helper) finish(ctx context.Context, v *Volume, record *Record, req Request) error {
	if record.Block {
		return nil
	}
	return h.Table.Register(ctx, record.Target, v.Capability.GetMount().GetFsType(), req.Flags)
}

// Grow makes the filesystem that is mounted on a path as large as its volume.
func (h *Helper) Grow(ctx context.Context, target string) error {
	record, err := h.records().at(filepath.Clean(target))
	if err != nil {
		return err
	}
	if record == nil || record.Block {
		return refused("no filesystem of Holdfast is mounted on %s", target)
	}
	return h.repeat(ctx, "grow the filesystem of volume "+record.Name, time.Now().Add(h.Patience), func(ctx context.Context) error {
		_, err := h.Node.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: string(record.ID), VolumePath: record.Target,
			StagingTargetPath: h.records().staging(record.ID)})
		return err
	})
}
